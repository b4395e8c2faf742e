package placement_test

import (
	"os"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/placement"
)

// state contains all properties of a cluster that count for a decision: zone, environment,
// condition, and whether it was placed and updated.
type state struct {
	placement.Cluster
	placed, updated bool
}

// everyState returns every combination of zones, environments, conditions and placements.
func everyState(zones []string, conditions ...placement.Cluster) (out []state) {
	for _, zone := range zones {
		for _, environment := range []string{"good", "bad"} {
			labels := map[string]string{"environment": environment, "zone": zone}
			if zone == "" {
				delete(labels, "zone")
			}
			for _, c := range conditions {
				c.Labels = labels
				out = append(out, state{Cluster: c}, state{Cluster: c, placed: true}, state{Cluster: c, placed: true, updated: true})
			}
		}
	}
	return out
}

// counts reports whether a state must be tried. For a selection, all clusters that are leaving,
// and all unhealthy clusters that were not placed, are equivalent, so one state represents them.
func (s state) counts() bool {
	first := s.Labels["zone"] == "x" && s.Labels["environment"] == "good"
	return first || !s.Leaving && (s.Unhealthy == "" || s.placed)
}

// everyFleet calls f with all fleets of clusters with the names; prev contains the clusters that
// were placed.
func everyFleet(names []string, states []state, prev placement.Previous, f func([]placement.Cluster)) {
	fleet := make([]placement.Cluster, len(names))
	var fill func(i int)
	fill = func(i int) {
		if i == len(names) {
			f(fleet)
			return
		}
		for _, s := range states {
			fleet[i] = s.Cluster
			fleet[i].Name = names[i]
			delete(prev.Clusters, names[i])
			if s.placed {
				prev.Clusters[names[i]] = s.updated
			}
			fill(i + 1)
		}
		delete(prev.Clusters, names[i])
	}
	fill(0)
}

var (
	zones  = []string{"", "x", "y"}
	broken = []placement.Cluster{{}, {Leaving: true}, {Unhealthy: "x"}}
	pair   = []string{"a", "b"}
)

// everyPickN calls f with policies that pick up to n clusters.
func everyPickN(n int, required []placement.Term, f func(placement.Policy)) {
	for _, when := range []placement.WhenUnsatisfiable{placement.DoNotSchedule, placement.ScheduleAnyway} {
		for number := range n + 1 {
			f(placement.Policy{
				Type: placement.PickN, NumberOfClusters: &number, Required: required,
				Preferred: []placement.Preference{{Weight: 10, LabelSelector: new(env("good"))}},
				Spread:    []placement.SpreadConstraint{{TopologyKey: "zone", WhenUnsatisfiable: when}},
			})
		}
	}
}

// required returns the terms of a policy without requirements, and of a policy that requires good
// clusters.
func required() [][]placement.Term { return [][]placement.Term{nil, {{LabelSelector: env("good")}}} }

// For every combination of two clusters, with every zone, environment, condition and placement,
// Decide agrees with the model: for policies with and without requirements, unchanged and edited.
func TestDecideOfTwoClustersIsTheModel(t *testing.T) {
	states, requirements := everyState(zones, broken...), required()
	if underRace {
		requirements = requirements[:1]
	}
	for _, terms := range requirements {
		everyPickN(len(pair), terms, func(p placement.Policy) {
			for _, digest := range []string{digestOf(t, p), "another"} {
				prev := placement.Previous{PolicyDigest: digest, Clusters: map[string]bool{}}
				everyFleet(pair, states, prev, func(clusters []placement.Cluster) { compareWithModel(t, p, clusters, prev) })
			}
		})
	}
}

// For every distinct combination of three clusters Decide agrees with the model; the soak runs
// all combinations. Two zones are equivalent to the same zones with exchanged names. With the
// race detector the test has two clusters.
func TestDecideOfThreeClustersIsTheModel(t *testing.T) {
	soak := os.Getenv("SLIPWAY_SOAK") != ""
	names, states := append(slices.Clone(pair), "c"), everyState(zones, broken...)
	if underRace {
		names = pair
	}
	if !soak {
		states = slices.DeleteFunc(states, func(s state) bool { return !s.counts() })
	}
	decided := 0
	everyPickN(len(names), nil, func(p placement.Policy) {
		prev := placement.Previous{PolicyDigest: digestOf(t, p), Clusters: map[string]bool{}}
		everyFleet(names, states, prev, func(clusters []placement.Cluster) {
			if soak || !mirrored(clusters) {
				decided++
				compareWithModel(t, p, clusters, prev)
			}
		})
	})
	t.Logf("%d selections about %d clusters in %d states", decided, len(names), len(states))
}

// mirrored reports whether another fleet with exchanged zone names represents this fleet.
func mirrored(clusters []placement.Cluster) bool {
	i := slices.IndexFunc(clusters, func(c placement.Cluster) bool { return c.Labels["zone"] != "" })
	return i >= 0 && clusters[i].Labels["zone"] == "y"
}

// tainted returns clusters with every condition and with a taint: none, a tolerated one, and one
// that the tests do not tolerate.
func tainted() (out []placement.Cluster) {
	for _, c := range broken {
		out = append(out, c)
		for _, value := range []string{"yes", "no"} {
			c.Taints = []placement.Taint{{Key: "k", Value: value, Effect: placement.NoSchedule}}
			out = append(out, c)
		}
	}
	return out
}

// A PickAll policy picks the clusters that may stay and the clusters that may be picked, in every
// fleet of two clusters that differ in relevant properties. It checks placed clusters again,
// whether the policy was edited or not.
func TestDecideOfEveryPickAllIsTheModel(t *testing.T) {
	states := everyState([]string{"x"}, tainted()...)
	for _, terms := range required() {
		p := placement.Policy{Required: terms, Tolerations: []placement.Toleration{{Key: "k", Value: "yes"}}}
		for _, digest := range []string{digestOf(t, p), "another"} {
			prev := placement.Previous{PolicyDigest: digest, Clusters: map[string]bool{}}
			everyFleet(pair, states, prev, func(clusters []placement.Cluster) {
				m := &model{policy: p, clusters: clusters, previous: prev, edited: true}
				wantPicked(t, p, clusters, prev, func(c placement.Cluster) bool { return m.stays(c) || m.possible(c) })
			})
		}
	}
}

// A PickFixed policy picks the named clusters that are placed or healthy and not leaving, in
// every fleet of two clusters and for every choice of names.
func TestDecideOfEveryPickFixedIsTheModel(t *testing.T) {
	states := everyState([]string{"x"}, tainted()...)
	for _, named := range [][]string{{"a"}, {"b"}, {"a", "b"}} {
		p := placement.Policy{Type: placement.PickFixed, ClusterNames: named}
		prev := placement.Previous{Clusters: map[string]bool{}}
		everyFleet(pair, states, prev, func(clusters []placement.Cluster) {
			wantPicked(t, p, clusters, prev, func(c placement.Cluster) bool {
				_, placed := prev.Clusters[c.Name]
				return !c.Leaving && slices.Contains(named, c.Name) && (placed || c.Unhealthy == "")
			})
		})
	}
}

// wantPicked fails unless just the clusters that are wanted are picked.
func wantPicked(t *testing.T, p placement.Policy, clusters []placement.Cluster, prev placement.Previous, wanted func(placement.Cluster) bool) {
	t.Helper()
	var want []string
	for _, c := range clusters {
		if wanted(c) {
			want = append(want, c.Name)
		}
	}
	if got, verdicts := decide(t, p, clusters, prev); !slices.Equal(got.Clusters, want) {
		t.Fatalf("policy %+v\nclusters %+v\nprevious %+v\npicked %v, want %v\n%+v", p, clusters, prev, got.Clusters, want, verdicts)
	}
}
