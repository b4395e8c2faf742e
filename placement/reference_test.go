package placement_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
)

// model decides about a PickN policy in the simplest way: it visits all clusters for every single
// cluster that it picks or drops, and counts again.
type model struct {
	policy   placement.Policy
	clusters []placement.Cluster
	previous placement.Previous
	edited   bool
	picked   map[string]bool
}

func (m *model) decide() []string {
	m.picked = map[string]bool{}
	for _, c := range m.clusters {
		if m.stays(c) {
			m.picked[c.Name] = true
		}
	}
	for len(m.picked) > *m.policy.NumberOfClusters {
		delete(m.picked, m.worst())
	}
	for len(m.picked) < *m.policy.NumberOfClusters {
		next := m.best()
		if next == "" {
			break
		}
		m.picked[next] = true
	}
	var names []string
	for _, c := range m.clusters {
		if m.picked[c.Name] {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (m *model) stays(c placement.Cluster) bool {
	_, placed := m.previous.Clusters[c.Name]
	return placed && !c.Leaving && (!m.edited || m.matches(c))
}

// possible reports whether a cluster might be picked, were it alone.
func (m *model) possible(c placement.Cluster) bool {
	if c.Leaving || c.Unhealthy != "" || !m.matches(c) {
		return false
	}
	for _, taint := range c.Taints {
		tolerated := false
		for _, t := range m.policy.Tolerations {
			tolerated = tolerated || t.Key == taint.Key && (t.Operator == placement.Exists || t.Value == taint.Value)
		}
		if taint.Effect == placement.NoSchedule && !tolerated {
			return false
		}
	}
	for _, s := range m.policy.Spread {
		if _, ok := c.Labels[s.TopologyKey]; !ok && s.WhenUnsatisfiable == placement.DoNotSchedule {
			return false
		}
	}
	return true
}

func has(s *metav1.LabelSelector, c placement.Cluster) bool {
	if s != nil {
		for k, v := range s.MatchLabels {
			if c.Labels[k] != v {
				return false
			}
		}
	}
	return true
}

func (m *model) matches(c placement.Cluster) bool {
	for _, t := range m.policy.Required {
		ok := has(&t.LabelSelector, c)
		for _, r := range t.Properties {
			q, there := c.Properties[r.Name]
			v, w := q.Value(), r.Value.Value()
			holds := map[placement.PropertyOperator]bool{
				placement.Gt: v > w, placement.Ge: v >= w, placement.Eq: v == w,
				placement.Ne: v != w, placement.Lt: v < w, placement.Le: v <= w,
			}
			ok = ok && there && holds[r.Operator]
		}
		if ok {
			return true
		}
	}
	return len(m.policy.Required) == 0
}

func (m *model) affinity(c placement.Cluster) int {
	sum := 0
	for _, p := range m.policy.Preferred {
		if !has(p.LabelSelector, c) {
			continue
		}
		if p.Sorter == nil {
			sum += p.Weight
			continue
		}
		q, there := c.Properties[p.Sorter.Name]
		if !there {
			continue
		}
		low, high := int64(math.MaxInt64), int64(math.MinInt64)
		for _, other := range m.clusters {
			if q, ok := other.Properties[p.Sorter.Name]; ok {
				low, high = min(low, q.Value()), max(high, q.Value())
			}
		}
		part := 1.0
		if high > low && p.Sorter.Order == placement.Descending {
			part = float64(q.Value()-low) / float64(high-low)
		} else if high > low {
			part = 1 - float64(q.Value()-low)/float64(high-low)
		}
		sum += int(math.Round(float64(p.Weight) * part))
	}
	return sum
}

// excess is how many more picked clusters the domain of c has than the emptiest
// one, with more.
func (m *model) excess(c placement.Cluster, key string, more int) (int, bool) {
	mine, ok := c.Labels[key]
	if !ok {
		return 0, false
	}
	counts := map[string]int{}
	for _, other := range m.clusters {
		v, ok := other.Labels[key]
		if ok && (m.stays(other) || m.possible(other)) {
			counts[v] += 0
			if m.picked[other.Name] {
				counts[v]++
			}
		}
	}
	least := math.MaxInt
	for _, n := range counts {
		least = min(least, n)
	}
	return counts[mine] + more - least, true
}

// spread returns the score of c, and whether a constraint forbids it.
func (m *model) spread(c placement.Cluster, more int) (score int, forbidden bool) {
	for _, s := range m.policy.Spread {
		excess, ok := m.excess(c, s.TopologyKey, more)
		if !ok || excess > max(s.MaxSkew, 1) {
			score -= 1000
			forbidden = forbidden || s.WhenUnsatisfiable == placement.DoNotSchedule
		}
		if ok {
			score -= excess - more
		}
	}
	return score, forbidden
}

// before reports whether a comes before b by numbers, and then by name.
func before(a, b []int, nameA, nameB string) bool {
	if order := slices.Compare(a, b); order != 0 {
		return order > 0
	}
	return nameA > nameB
}

func (m *model) best() (name string) {
	var top []int
	for _, c := range m.clusters {
		score, forbidden := m.spread(c, 1)
		if m.picked[c.Name] || !m.possible(c) || m.wasDropped(c) || forbidden {
			continue
		}
		if now := []int{score, m.affinity(c)}; name == "" || before(now, top, c.Name, name) {
			name, top = c.Name, now
		}
	}
	return name
}

// wasDropped reports whether a cluster could stay and is not picked. While the model picks
// clusters this is never true.
func (m *model) wasDropped(c placement.Cluster) bool { return m.stays(c) && !m.picked[c.Name] }

func (m *model) worst() (name string) {
	var bottom []int
	for _, c := range m.clusters {
		if !m.picked[c.Name] {
			continue
		}
		score, _ := m.spread(c, 0)
		now := []int{0, score, m.affinity(c)}
		if m.previous.Clusters[c.Name] {
			now[0] = 1
		}
		if name == "" || before(bottom, now, name, c.Name) {
			name, bottom = c.Name, now
		}
	}
	return name
}

// random creates fleets and policies with frequent relevant properties.
type random struct{ *rand.Rand }

func (r random) oneOf(values ...string) string { return values[r.IntN(len(values))] }

func (r random) cluster(name string) placement.Cluster {
	c := placement.Cluster{Name: name, Labels: map[string]string{}, Properties: map[string]resource.Quantity{}}
	for _, key := range []string{"zone", "tier"} {
		if v := r.oneOf("a", "b", "c", ""); v != "" {
			c.Labels[key] = v
		}
	}
	for _, name := range []string{"cpu", "nodes"} {
		if n := r.IntN(6); n > 0 {
			c.Properties[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	c.Leaving = r.IntN(12) == 0
	c.Unhealthy = r.oneOf("", "", "", "", "", "", "no heartbeat")
	if r.IntN(5) == 0 {
		c.Taints = []placement.Taint{{Key: "k", Value: r.oneOf("v", "w"), Effect: placement.TaintEffect(r.oneOf("NoSchedule", "PreferNoSchedule"))}}
	}
	return c
}

func (r random) fleet() []placement.Cluster {
	clusters := make([]placement.Cluster, r.IntN(13))
	for i := range clusters {
		clusters[i] = r.cluster("c" + strings.Repeat("0", i))
	}
	return clusters
}

func (r random) selector() *metav1.LabelSelector {
	if r.IntN(3) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{r.oneOf("zone", "tier"): r.oneOf("a", "b", "c")}}
}

func (r random) policy() placement.Policy {
	n := r.IntN(9)
	p := placement.Policy{Type: placement.PickN, NumberOfClusters: &n}
	for range r.IntN(3) {
		var t placement.Term
		if s := r.selector(); s != nil {
			t.LabelSelector = *s
		}
		for range r.IntN(2) {
			t.Properties = append(t.Properties, placement.PropertyRequirement{
				Name: r.oneOf("cpu", "nodes"), Operator: placement.PropertyOperator(r.oneOf("Gt", "Ge", "Eq", "Ne", "Lt", "Le")),
				Value: *resource.NewQuantity(int64(r.IntN(6)), resource.DecimalSI),
			})
		}
		p.Required = append(p.Required, t)
	}
	for range r.IntN(4) {
		pref := placement.Preference{Weight: r.IntN(201) - 100, LabelSelector: r.selector()}
		if pref.LabelSelector == nil || r.IntN(2) == 0 {
			pref.Sorter = &placement.PropertySorter{Name: r.oneOf("cpu", "nodes"), Order: placement.SortOrder(r.oneOf("Ascending", "Descending"))}
		}
		p.Preferred = append(p.Preferred, pref)
	}
	for _, key := range []string{"zone", "tier"} {
		if r.IntN(2) == 0 {
			when := placement.WhenUnsatisfiable(r.oneOf("DoNotSchedule", "ScheduleAnyway"))
			p.Spread = append(p.Spread, placement.SpreadConstraint{MaxSkew: r.IntN(3), TopologyKey: key, WhenUnsatisfiable: when})
		}
	}
	if r.IntN(3) == 0 {
		p.Tolerations = []placement.Toleration{{Key: "k", Operator: placement.Equal, Value: "v"}}
	}
	return p
}

func (r random) previous(clusters []placement.Cluster, digest string) placement.Previous {
	prev := placement.Previous{PolicyDigest: digest, Clusters: map[string]bool{"gone": true}}
	if r.IntN(3) == 0 {
		prev.PolicyDigest = "another"
	}
	for _, c := range clusters {
		if r.IntN(3) == 0 {
			prev.Clusters[c.Name] = r.IntN(2) == 0
		}
	}
	return prev
}
