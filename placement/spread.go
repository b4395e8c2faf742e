package placement

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// SpreadConstraint distributes the clusters that a policy picks over domains:
// clusters with the same value of a label. The domains that count are those of
// clusters that are placed or may be picked.
type SpreadConstraint struct {
	// MaxSkew is how many more picked clusters a domain may have than the
	// emptiest one; 0 means 1.
	MaxSkew int `json:"maxSkew,omitempty"`
	// TopologyKey is the key of the label. A cluster that does not have it is
	// kept out by DoNotSchedule, and breaks the constraint otherwise.
	TopologyKey string `json:"topologyKey"`
	// WhenUnsatisfiable is DoNotSchedule when empty.
	WhenUnsatisfiable WhenUnsatisfiable `json:"whenUnsatisfiable,omitempty"`
}

// WhenUnsatisfiable says what becomes of clusters that would break a
// [SpreadConstraint]. The words are Kubernetes'.
type WhenUnsatisfiable string

// What a [SpreadConstraint] does with clusters that would break it.
const (
	// DoNotSchedule picks none, even if fewer clusters are picked than wanted.
	DoNotSchedule WhenUnsatisfiable = "DoNotSchedule"
	// ScheduleAnyway picks them last.
	ScheduleAnyway WhenUnsatisfiable = "ScheduleAnyway"
)

// noDomain stands for the domain of a cluster that does not have the label.
const noDomain = -1

// brokenSpread is what a broken constraint costs. The number is KubeFleet's.
const brokenSpread = 1000

// defaulted returns the constraint with its defaults in place.
func (s SpreadConstraint) defaulted() SpreadConstraint {
	s.MaxSkew = cmp.Or(s.MaxSkew, 1)
	s.WhenUnsatisfiable = cmp.Or(s.WhenUnsatisfiable, DoNotSchedule)
	return s
}

// tally counts the picked clusters of each domain of a constraint.
type tally struct {
	SpreadConstraint
	index  map[string]int
	counts []int
	least  int
}

// domain returns the number of the cluster's domain, which counts from now on.
func (t *tally) domain(c *Cluster) int {
	value, ok := c.Labels[t.TopologyKey]
	if !ok {
		return noDomain
	}
	i, ok := t.index[value]
	if !ok {
		i = len(t.counts)
		t.index[value] = i
		t.counts = append(t.counts, 0)
		t.least = 0
	}
	return i
}

func (t *tally) add(domain, n int) {
	if domain != noDomain {
		t.counts[domain] += n
		t.least = slices.Min(t.counts)
	}
}

// breaks reports whether the constraint does not hold in a domain, which has the
// cluster already or gets it with more.
func (t *tally) breaks(domain, more int) bool {
	return domain == noDomain || t.counts[domain]+more-t.least > t.MaxSkew
}

// spread is the constraints of a policy with what is picked.
type spread []*tally

// newSpread puts the clusters that are placed or may be picked into their
// domains, and counts those that are placed.
func newSpread(constraints []SpreadConstraint, clusters []*candidate) spread {
	s := make(spread, len(constraints))
	for i, c := range constraints {
		s[i] = &tally{SpreadConstraint: c.defaulted(), index: map[string]int{}}
	}
	for _, c := range clusters {
		c.domains = make([]int, len(s))
		for i, t := range s {
			c.domains[i] = t.domain(c.Cluster)
		}
	}
	for _, c := range clusters {
		if c.stays {
			s.add(c, 1)
		}
	}
	return s
}

func (s spread) add(c *candidate, n int) {
	for i, t := range s {
		t.add(c.domains[i], n)
	}
}

// blocks returns the constraint that keeps a cluster from being picked next,
// or nil.
func (s spread) blocks(c *candidate) *tally {
	for i, t := range s {
		if t.WhenUnsatisfiable == DoNotSchedule && t.breaks(c.domains[i], 1) {
			return t
		}
	}
	return nil
}

// score returns how evenly the clusters are spread where c is, or with more
// gets: 0 at best, less by each cluster that its domains have more than the
// emptiest ones, and by a lot for each constraint that does not hold.
func (s spread) score(c *candidate, more int) int {
	score := 0
	for i, t := range s {
		if t.breaks(c.domains[i], more) {
			score -= brokenSpread
		}
		if c.domains[i] != noDomain {
			score -= t.counts[c.domains[i]] - t.least
		}
	}
	return score
}

// groups divides clusters by their domains; between those of a group the
// spread makes no difference. Each group is in the order of compare.
func groups(clusters []*candidate, compare func(a, b *candidate) int) [][]*candidate {
	var out [][]*candidate
	index := map[string]int{}
	for _, c := range clusters {
		key := c.domainKey()
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	for _, g := range out {
		slices.SortFunc(g, compare)
	}
	return out
}

func (c *candidate) domainKey() string {
	var b strings.Builder
	for _, d := range c.domains {
		b.WriteString(strconv.Itoa(d))
		b.WriteByte(' ')
	}
	return b.String()
}
