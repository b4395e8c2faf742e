package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
)

// member parses "name key=value cpu:4 taint!value leaving sick".
func member(text string) placement.Cluster {
	words := strings.Fields(text)
	c := placement.Cluster{Name: words[0], Labels: map[string]string{}, Properties: map[string]resource.Quantity{}}
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			c.Labels[k] = v
		} else if k, v, ok := strings.Cut(w, ":"); ok {
			c.Properties[k] = resource.MustParse(v)
		} else if k, v, ok := strings.Cut(w, "!"); ok {
			c.Taints = append(c.Taints, placement.Taint{Key: k, Value: v, Effect: placement.NoSchedule})
		}
		c.Leaving = c.Leaving || w == "leaving"
		if w == "sick" {
			c.Unhealthy = "no heartbeat"
		}
	}
	return c
}

// members parses a cluster a line.
func members(text string) []placement.Cluster {
	var out []placement.Cluster
	for line := range strings.SplitSeq(text, ",") {
		out = append(out, member(line))
	}
	return out
}

func pickN(n int) placement.Policy {
	return placement.Policy{Type: placement.PickN, NumberOfClusters: &n}
}

func property(name string, op placement.PropertyOperator, value string) placement.PropertyRequirement {
	return placement.PropertyRequirement{Name: name, Operator: op, Value: resource.MustParse(value)}
}

func preferring(p placement.Policy, preferences ...placement.Preference) placement.Policy {
	p.Preferred = preferences
	return p
}

func spreading(p placement.Policy, constraints ...placement.SpreadConstraint) placement.Policy {
	p.Spread = constraints
	return p
}

func tolerating(p placement.Policy, tolerations ...placement.Toleration) placement.Policy {
	p.Tolerations = tolerations
	return p
}

func requiring(p placement.Policy, terms ...placement.Term) placement.Policy {
	p.Required = terms
	return p
}

// expect decides and compares "name spread affinity reason" of every cluster; the reason is a
// substring, and a + marks a picked cluster.
func expect(t *testing.T, p placement.Policy, clusters []placement.Cluster, prev placement.Previous, want ...string) {
	t.Helper()
	d, verdicts := decide(t, p, clusters, prev)
	if len(verdicts) != len(want) {
		t.Fatalf("verdicts %+v, want %d", verdicts, len(want))
	}
	var picked []string
	for i, v := range verdicts {
		sign := "-"
		if v.Picked {
			picked, sign = append(picked, v.Cluster), "+"
		}
		if v.Kept != (v.Reason == "it is already placed") {
			t.Errorf("%s is kept: %v, since %s", v.Cluster, v.Kept, v.Reason)
		}
		got := fmt.Sprintf("%s%s %d %d", sign, v.Cluster, v.Score.Spread, v.Score.Affinity)
		score, reason, _ := strings.Cut(want[i], ": ")
		if got != score || !strings.Contains(v.Reason, reason) {
			t.Errorf("%s: %s\nwant %s", got, v.Reason, want[i])
		}
	}
	if diff := cmp.Diff(picked, d.Clusters); diff != "" && len(d.Clusters) > 0 {
		t.Errorf("the verdicts (-) and the selection (+) differ:\n%s", diff)
	}
}

func TestDecideRequired(t *testing.T) {
	clusters := members("a cpu:2 env=x, b cpu:2000m env=y, c cpu:3 env=x, d env=x")
	for op, want := range map[placement.PropertyOperator]string{
		placement.Gt: "c", placement.Ge: "abc", placement.Eq: "ab", placement.Ne: "c", placement.Lt: "", placement.Le: "ab",
	} {
		d, _ := decide(t, requiring(pickN(9), placement.Term{Properties: []placement.PropertyRequirement{property("cpu", op, "2")}}), clusters, placement.Previous{})
		if got := strings.Join(d.Clusters, ""); got != want {
			t.Errorf("cpu %s 2 picks %q, want %q", op, got, want)
		}
	}
	x := metav1.LabelSelector{MatchLabels: map[string]string{"env": "x"}}
	both := placement.Term{LabelSelector: x, Properties: []placement.PropertyRequirement{property("cpu", placement.Gt, "1"), property("cpu", placement.Lt, "3")}}
	expect(t, requiring(pickN(9), both), clusters, placement.Previous{},
		"+a 0 0: number 1 of 9", "-b 0 0: none of the required terms", "-c 0 0: none of", "-d 0 0: none of")
	either := requiring(placement.Policy{}, both, placement.Term{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "y"}}})
	expect(t, either, clusters, placement.Previous{}, "+a 0 0: all that match", "+b 0 0: all that match", "-c 0 0: none of", "-d 0 0: none of")
	everything := requiring(placement.Policy{}, both, placement.Term{})
	if d, err := placement.Resolve(everything, clusters); err != nil || len(d.Clusters) != 4 {
		t.Errorf("an empty term picks %v (%v), want all", d.Clusters, err)
	}
}

func TestDecidePreferences(t *testing.T) {
	west := &metav1.LabelSelector{MatchLabels: map[string]string{"region": "west"}}
	sorter := func(order placement.SortOrder) *placement.PropertySorter {
		return &placement.PropertySorter{Name: "cpu", Order: order}
	}
	clusters := members("a cpu:10, b cpu:13 region=west, c cpu:20, d region=west")
	for name, tc := range map[string]struct {
		prefer []placement.Preference
		want   []string
	}{
		"ties go to the later name":       {nil, []string{"-a 0 0: wants 2", "-b 0 0: wants 2", "+c 0 0: number 2", "+d 0 0: number 1"}},
		"labels":                          {[]placement.Preference{{Weight: 7, LabelSelector: west}}, []string{"-a 0 0", "+b 0 7: number 2", "-c 0 0", "+d 0 7: number 1 of 2, with a score of 0 for the spread and 7 for affinity"}},
		"a negative weight":               {[]placement.Preference{{Weight: -7, LabelSelector: west}}, []string{"+a 0 0", "-b 0 -7", "+c 0 0", "-d 0 -7"}},
		"the greatest first":              {[]placement.Preference{{Weight: 50, Sorter: sorter(placement.Descending)}}, []string{"-a 0 0", "+b 0 15", "+c 0 50", "-d 0 0"}},
		"the least first":                 {[]placement.Preference{{Weight: 50, Sorter: sorter(placement.Ascending)}}, []string{"+a 0 50", "+b 0 35", "-c 0 0", "-d 0 0"}},
		"halves are rounded away":         {[]placement.Preference{{Weight: -5, Sorter: sorter(placement.Descending)}}, []string{"+a 0 0", "-b 0 -2", "-c 0 -5", "+d 0 0"}},
		"labels and a sorter":             {[]placement.Preference{{Weight: 100, LabelSelector: west, Sorter: sorter(placement.Descending)}}, []string{"-a 0 0", "+b 0 30", "-c 0 0", "+d 0 0"}},
		"preferences add up":              {[]placement.Preference{{Weight: 5, LabelSelector: west}, {Weight: 10, Sorter: sorter(placement.Descending)}}, []string{"-a 0 0", "+b 0 8", "+c 0 10", "-d 0 5"}},
		"no cluster reports the property": {[]placement.Preference{{Weight: 5, Sorter: &placement.PropertySorter{Name: "gpu", Order: placement.Ascending}}}, []string{"-a 0 0", "-b 0 0", "+c 0 0", "+d 0 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, preferring(pickN(2), tc.prefer...), clusters, placement.Previous{}, tc.want...)
		})
	}
	same := preferring(pickN(2), placement.Preference{Weight: 9, Sorter: sorter(placement.Ascending)})
	expect(t, same, members("a cpu:1, b cpu:1000m, c"), placement.Previous{}, "+a 0 9", "+b 0 9", "-c 0 0")
}

func TestDecideTaints(t *testing.T) {
	clusters := members("a k!v, b k!w, c other!, d")
	clusters[3].Taints = []placement.Taint{{Key: "k", Value: "v", Effect: "PreferNoSchedule"}}
	for name, tc := range map[string]struct {
		tolerations []placement.Toleration
		want        string
	}{
		"none":          {nil, "d"},
		"equal":         {[]placement.Toleration{{Key: "k", Value: "v"}}, "ad"},
		"exists":        {[]placement.Toleration{{Key: "k", Operator: placement.Exists}}, "abd"},
		"no value":      {[]placement.Toleration{{Key: "other", Operator: placement.Equal, Effect: placement.NoSchedule}}, "cd"},
		"all keys":      {[]placement.Toleration{{Operator: placement.Exists, Effect: placement.NoSchedule}}, "abcd"},
		"another value": {[]placement.Toleration{{Key: "k"}}, "d"},
		"two":           {[]placement.Toleration{{Key: "k", Value: "w"}, {Key: "other"}}, "bcd"},
	} {
		for _, p := range []placement.Policy{pickN(9), {}} {
			d, _ := decide(t, tolerating(p, tc.tolerations...), clusters, placement.Previous{})
			if got := strings.Join(d.Clusters, ""); got != tc.want {
				t.Errorf("%s: %s picks %q, want %q", name, p.Type, got, tc.want)
			}
		}
	}
	expect(t, pickN(9), members("a k!v, b k!"), placement.Previous{}, "-a 0 0: not tolerate its taint k=v:NoSchedule", "-b 0 0: taint k:NoSchedule")
	two := tolerating(pickN(9), placement.Toleration{Key: "k", Operator: placement.Exists})
	expect(t, two, members("a k!v l!"), placement.Previous{}, "-a 0 0: not tolerate its taint l:NoSchedule")
}

func TestDecideSpread(t *testing.T) {
	zone := placement.SpreadConstraint{TopologyKey: "zone"}
	soft := placement.SpreadConstraint{TopologyKey: "zone", WhenUnsatisfiable: placement.ScheduleAnyway}
	skew2 := placement.SpreadConstraint{TopologyKey: "zone", MaxSkew: 2}
	rack := placement.SpreadConstraint{TopologyKey: "rack", WhenUnsatisfiable: placement.ScheduleAnyway}
	liked := placement.Preference{Weight: 10, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "x"}}}
	for name, tc := range map[string]struct {
		policy   placement.Policy
		clusters string
		want     []string
	}{
		"evenly, whatever is preferred": {
			preferring(spreading(pickN(2), zone), liked), "a zone=x, b zone=x, c zone=y",
			[]string{"-a 0 10: wants 2", "+b 0 10: number 1", "+c 0 0: number 2"},
		},
		"one domain is no skew": {spreading(pickN(2), zone), "a zone=x, b zone=x", []string{"+a 0 0: number 2", "+b 0 0: number 1"}},
		"fewer than wanted": {
			spreading(pickN(4), zone), "a zone=x, b zone=x, c zone=x, d zone=y",
			[]string{"-a -1001 0: one more with zone=x would be 2 more than there are elsewhere, and the policy allows 1", "+b 0 0: number 3", "+c 0 0: number 2", "+d 0 0: number 1"},
		},
		"a greater skew": {
			spreading(pickN(4), skew2), "a zone=x, b zone=x, c zone=x, d zone=y",
			[]string{"+a -1 0: number 4", "+b 0 0: number 3", "+c 0 0: number 2", "+d 0 0: number 1"},
		},
		"anyway": {
			spreading(pickN(4), soft), "a zone=x, b zone=x, c zone=x, d zone=y",
			[]string{"+a -1001 0: number 4", "+b 0 0: number 3", "+c 0 0: number 2", "+d 0 0: number 1"},
		},
		"without the label":         {spreading(pickN(2), zone), "a, b zone=x", []string{"-a 0 0: no label zone", "+b 0 0"}},
		"without the label, anyway": {spreading(pickN(2), soft), "z, b zone=x", []string{"+b 0 0: number 1", "+z -1000 0: number 2"}},
		"domains of which none may be picked do not count": {
			spreading(pickN(2), zone), "a zone=x, b zone=x, c zone=y sick, d zone=z leaving",
			[]string{"+a 0 0", "+b 0 0", "-c 0 0: not healthy: no heartbeat", "-d 0 0: leaving"},
		},
		"two constraints": {
			spreading(pickN(3), zone, rack), "a zone=x rack=1, b zone=x rack=2, c zone=y rack=1, d zone=y rack=2",
			[]string{"+a 0 0: number 2", "-b 0 0: wants 3", "+c 0 0: number 3", "+d 0 0: number 1"},
		},
	} {
		t.Run(name, func(t *testing.T) { expect(t, tc.policy, members(tc.clusters), placement.Previous{}, tc.want...) })
	}
}

// placed returns the clusters placed by the policy; a name with a star was updated.
func placed(t *testing.T, p placement.Policy, names string) placement.Previous {
	t.Helper()
	prev := placement.Previous{PolicyDigest: digestOf(t, p), Clusters: map[string]bool{}}
	for name := range strings.FieldsSeq(names) {
		short, updated := strings.CutSuffix(name, "*")
		prev.Clusters[short] = updated
	}
	return prev
}

func TestDecideKeepsPlacedClusters(t *testing.T) {
	x := placement.Term{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "x"}}}
	p := preferring(requiring(pickN(2), x), placement.Preference{Weight: 9, Sorter: &placement.PropertySorter{Name: "cpu", Order: placement.Descending}})
	clusters := members("a env=x cpu:1, b env=y, c env=x cpu:9 k!v sick, d env=x cpu:9 leaving, e env=x cpu:9")
	for name, tc := range map[string]struct {
		names, digest string
		want          []string
	}{
		"a better one does not displace it": {"a gone", "", []string{"+a 0 0: already placed", "-b 0 0", "-c 0 9", "-d 0 9", "+e 0 9: number 2"}},
		"it stays when it stops matching":   {"b", "", []string{"-a 0 0", "+b 0 0: already placed, though it matches none of the required terms", "-c 0 9", "-d 0 9", "+e 0 9"}},
		"unless the policy was edited":      {"b", "older", []string{"+a 0 0", "-b 0 0: none of the required", "-c 0 9", "-d 0 9", "+e 0 9"}},
		"taints and health do not matter":   {"c", "", []string{"-a 0 0", "-b 0 0", "+c 0 9: already placed, though it is not healthy: no heartbeat", "-d 0 9", "+e 0 9"}},
		"nor after the policy was edited":   {"c", "older", []string{"-a 0 0", "-b 0 0", "+c 0 9: already placed, though", "-d 0 9", "+e 0 9"}},
		"it goes when it leaves":            {"d", "", []string{"+a 0 0: number 2", "-b 0 0", "-c 0 9", "-d 0 9: leaving the fleet", "+e 0 9: number 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			prev := placed(t, p, tc.names)
			if tc.digest != "" {
				prev.PolicyDigest = tc.digest
			}
			expect(t, p, clusters, prev, tc.want...)
		})
	}
}

func TestDecideScalesDown(t *testing.T) {
	liked := placement.Preference{Weight: 5, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"good": "1"}}}
	zone := placement.SpreadConstraint{TopologyKey: "zone"}
	for name, tc := range map[string]struct {
		policy          placement.Policy
		clusters, names string
		want            []string
	}{
		"never updated first": {
			preferring(pickN(1), liked), "a good=1, b, c", "a b* c",
			[]string{"-a 0 5: of the 2 that are placed, it was never updated, and 1 are wanted", "+b 0 0: already placed", "-c 0 0: of the 3 that are placed, it was never updated"},
		},
		"then the lowest score": {
			preferring(pickN(1), liked), "a good=1, b, c", "a* b* c*",
			[]string{"+a 0 5", "-b 0 0: of the 3 that are placed, its score is the lowest", "-c 0 0: of the 2"},
		},
		"from the fullest domain": {
			preferring(spreading(pickN(2), zone), liked), "a zone=x good=1, b zone=x good=1, c zone=y", "a* b* c*",
			[]string{"-a -1 5: its score is the lowest", "+b 0 5", "+c 0 0"},
		},
		"a broken constraint does not drop any": {
			spreading(pickN(3), zone), "a zone=x, b zone=x, c zone=x, d zone=y sick, e zone=y", "a* b* c*",
			[]string{"+a -1003 0", "+b -1003 0", "+c -1003 0", "-d 0 0", "-e 0 0: wants 3"},
		},
		"and is mended by the next": {
			spreading(pickN(4), zone), "a zone=x, b zone=x, c zone=x, d zone=x, e zone=y", "a* b* c*",
			[]string{"+a -1002 0", "+b -1002 0", "+c -1002 0", "-d -1002 0: would be 3 more than there are elsewhere", "+e 0 0: number 4 of 4"},
		},
		"to nothing": {pickN(0), "a, b", "b*", []string{"-a 0 0: wants 0", "-b 0 0: 0 are wanted"}},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, tc.policy, members(tc.clusters), placed(t, tc.policy, tc.names), tc.want...)
		})
	}
}

func TestDecideOtherTypes(t *testing.T) {
	clusters := members("a env=x k!v, b env=x sick, c env=y, d env=x leaving")
	all := requiring(placement.Policy{}, placement.Term{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "x"}}})
	expect(t, all, clusters, placement.Previous{},
		"-a 0 0: taint", "-b 0 0: not healthy", "-c 0 0: none of the required", "-d 0 0: leaving")
	expect(t, all, clusters, placed(t, all, "a b* c* d*"),
		"+a 0 0: already placed, though the policy does not tolerate", "+b 0 0: already placed, though it is not healthy", "-c 0 0: none of", "-d 0 0: leaving")
	fixed := placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"a", "b", "d"}}
	expect(t, fixed, clusters, placement.Previous{Clusters: map[string]bool{"b": true, "c": true}},
		"+a 0 0: names it", "+b 0 0: already placed, though it is not healthy", "-c 0 0: does not name it", "-d 0 0: leaving")
	expect(t, fixed, clusters, placement.Previous{}, "+a 0 0: names it", "-b 0 0: not healthy", "-c 0 0: does not name it", "-d 0 0: leaving")
	expect(t, placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"x", "c", "0"}}, clusters, placement.Previous{Clusters: map[string]bool{"x": true}},
		"-0 0 0: not in the inventory", "-a 0 0: does not name it", "-b 0 0: does not name it", "+c 0 0: names it", "-d 0 0: leaving", "-x 0 0: not in the inventory")
	expect(t, placement.Policy{Type: placement.PickFixed}, members("a, b"), placement.Previous{Clusters: map[string]bool{"b": true}},
		"-a 0 0: does not name it", "-b 0 0: does not name it")
	_, _, err := placement.Decide(pickN(-1), members("a, a"), placement.Previous{})
	fragments(t, err, []string{"placement policy: numberOfClusters: Invalid"})
	_, _, err = placement.Decide(pickN(1), members("a, a"), placement.Previous{})
	fragments(t, err, []string{"cluster inventory: clusters[a].name: Duplicate"})
}

// Resolve picks the same clusters as Decide picks among placed clusters.
func TestResolvePassesOverTaintsAndHealth(t *testing.T) {
	r := random{rand.New(rand.NewPCG(8, 3))}
	for range 300 {
		p, clusters := r.policy(), r.fleet()
		p = placement.Policy{Required: p.Required}
		prev := placement.Previous{Clusters: map[string]bool{}}
		for _, c := range clusters {
			prev.Clusters[c.Name] = true
		}
		want, _ := decide(t, p, clusters, prev)
		got, err := placement.Resolve(p, clusters)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("Resolve (+) and Decide (-): %v\n%s", err, diff)
		}
	}
	_, err := placement.Resolve(pickN(1), nil)
	fragments(t, err, []string{"placementType: a PickN policy depends on what is placed already"})
}

// Decide does not change its arguments.
func TestDecideLeavesItsArguments(t *testing.T) {
	r := random{rand.New(rand.NewPCG(8, 4))}
	for range 100 {
		p, clusters := r.policy(), r.fleet()
		prev := r.previous(clusters, "")
		before, was := fmt.Sprintf("%+v %+v", p, clusters), maps.Clone(prev.Clusters)
		decide(t, p, clusters, prev)
		if after := fmt.Sprintf("%+v %+v", p, clusters); after != before || !maps.Equal(was, prev.Clusters) {
			t.Fatalf("before: %s\nafter:  %s", before, after)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	b.Run("clusters=10000", func(b *testing.B) {
		p := preferring(spreading(pickN(500), placement.SpreadConstraint{TopologyKey: "zone"},
			placement.SpreadConstraint{TopologyKey: "region", WhenUnsatisfiable: placement.ScheduleAnyway}))
		for i := range 5 {
			p.Required = append(p.Required, placement.Term{
				LabelSelector: env(fmt.Sprint(i)), Properties: []placement.PropertyRequirement{property("cpu", placement.Ge, "100")},
			})
		}
		for i, order := range []placement.SortOrder{placement.Ascending, placement.Descending} {
			p.Preferred = append(p.Preferred, placement.Preference{Weight: 50 - 100*i, Sorter: &placement.PropertySorter{Name: "cpu", Order: order}})
		}
		p.Preferred = append(p.Preferred, placement.Preference{Weight: 20, LabelSelector: new(env("3"))})
		clusters := make([]placement.Cluster, 10_000)
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range clusters {
			zone := rnd.IntN(60)
			clusters[i] = placement.Cluster{
				Name:       fmt.Sprintf("cluster-%05d", i),
				Labels:     map[string]string{"environment": fmt.Sprint(rnd.IntN(6)), "zone": fmt.Sprint("z", zone), "region": fmt.Sprint("r", zone/3)},
				Properties: map[string]resource.Quantity{"cpu": *resource.NewQuantity(int64(rnd.IntN(1000)), resource.DecimalSI)},
			}
		}
		for b.Loop() {
			d, _, err := placement.Decide(p, clusters, placement.Previous{})
			if err != nil || len(d.Clusters) != 500 {
				b.Fatal(len(d.Clusters), err)
			}
		}
	})
}

// TestANamespaceThatAClusterDoesNotHave: a missing namespace prevents the selection of a new
// cluster, if the namespaces are known and the policy does not name the cluster.
func TestANamespaceThatAClusterDoesNotHave(t *testing.T) {
	three := 3
	clusters := []placement.Cluster{
		{Name: "has", Namespaces: []string{"app", "other"}},
		{Name: "has-not", Namespaces: []string{"other"}},
		{Name: "none", Namespaces: []string{}},
		{Name: "unknown"},
	}
	for _, c := range []struct {
		name     string
		policy   placement.Policy
		previous placement.Previous
		want     string
	}{
		{"of no namespace", placement.Policy{}, placement.Previous{}, "has has-not none unknown"},
		{"all", placement.Policy{}, placement.Previous{Namespace: "app"}, "has unknown"},
		{"a number", placement.Policy{Type: placement.PickN, NumberOfClusters: &three}, placement.Previous{Namespace: "app"}, "has unknown"},
		{"by name", placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"has-not"}}, placement.Previous{Namespace: "app"}, "has-not"},
		{"what is there stays", placement.Policy{}, placement.Previous{Namespace: "app", Clusters: map[string]bool{"has-not": true}}, "has has-not unknown"},
	} {
		d, why, err := placement.Decide(c.policy, clusters, c.previous)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(d.Clusters, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.name == "all" && !strings.Contains(why[1].Reason, "it has no namespace app") {
			t.Errorf("%s: %s", why[1].Cluster, why[1].Reason)
		}
	}
}
