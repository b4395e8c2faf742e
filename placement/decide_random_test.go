package placement_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
)

func decide(t *testing.T, p placement.Policy, clusters []placement.Cluster, prev placement.Previous) (placement.Selection, []placement.Evaluation) {
	t.Helper()
	d, verdicts, err := placement.Decide(p, clusters, prev)
	if err != nil {
		t.Fatal(err)
	}
	return d, verdicts
}

// digestOf is the digest of a policy, which does not depend on the inventory.
func digestOf(t *testing.T, p placement.Policy) string {
	t.Helper()
	d, _ := decide(t, p, nil, placement.Previous{})
	return d.PolicyDigest
}

func compareWithModel(t *testing.T, p placement.Policy, clusters []placement.Cluster, prev placement.Previous) placement.Selection {
	t.Helper()
	got, verdicts := decide(t, p, clusters, prev)
	m := &model{policy: p, clusters: clusters, previous: prev, edited: prev.PolicyDigest != got.PolicyDigest}
	if want := m.decide(); !slices.Equal(want, got.Clusters) {
		t.Fatalf("policy %+v\nclusters %+v\nprevious %+v\npicked %v, want %v\n%+v", p, clusters, prev, got.Clusters, want, verdicts)
	}
	kept, staying := 0, 0
	for _, c := range clusters {
		if m.stays(c) {
			staying++
			if m.picked[c.Name] {
				kept++
			}
		}
	}
	if kept != min(staying, *p.NumberOfClusters) {
		t.Fatalf("%d of %d that may stay are kept, and %d are wanted", kept, staying, *p.NumberOfClusters)
	}
	return got
}

// For every fleet and every order of the clusters, Decide picks the same clusters as the plain
// model and keeps as many clusters as possible.
func TestDecideIsTheModel(t *testing.T) {
	rounds := 1500
	if os.Getenv("SLIPWAY_SOAK") != "" {
		rounds = 50_000
	}
	r := random{rand.New(rand.NewPCG(8, 1))}
	for range rounds {
		p, clusters := r.policy(), r.fleet()
		prev := r.previous(clusters, digestOf(t, p))
		compareWithModel(t, p, clusters, prev)
		want, reasons := decide(t, p, clusters, prev)
		r.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
		got, again := decide(t, p, clusters, prev)
		if diff := cmp.Diff(want, got) + cmp.Diff(reasons, again); diff != "" {
			t.Fatalf("the order of the inventory changed the selection:\n%s", diff)
		}
		slices.Reverse(p.Required)
		slices.Reverse(p.Preferred)
		slices.Reverse(p.Spread)
		got, again = decide(t, p, clusters, prev)
		if diff := cmp.Diff(want, got) + cmp.Diff(scores(reasons), scores(again)); diff != "" {
			t.Fatalf("the order of the policy changed the selection:\n%s", diff)
		}
	}
}

// scores returns the verdicts without their messages, because a message names only the first of
// several obstacles.
func scores(verdicts []placement.Evaluation) []placement.Evaluation {
	out := slices.Clone(verdicts)
	for i := range out {
		out[i].Reason = ""
	}
	return out
}

// A selection that is made again of the same is the same, and one after a
// cluster has left replaces this cluster at most.
func TestDecideMovesLittle(t *testing.T) {
	r := random{rand.New(rand.NewPCG(8, 2))}
	for range 700 {
		p, clusters := r.policy(), r.fleet()
		first, _ := decide(t, p, clusters, placement.Previous{})
		prev := placedBy(first)
		again, verdicts := decide(t, p, clusters, prev)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("the selection changed though nothing else did:\n%s\n%+v", diff, verdicts)
		}
		if len(first.Clusters) == 0 {
			continue
		}
		left := first.Clusters[r.IntN(len(first.Clusters))]
		for i := range clusters {
			clusters[i].Leaving = clusters[i].Leaving || clusters[i].Name == left
			clusters[i].Properties = r.cluster("x").Properties
		}
		next := compareWithModel(t, p, clusters, prev)
		for _, name := range first.Clusters {
			if slices.Contains(next.Clusters, name) == (name == left) {
				t.Fatalf("of %v, %s left, and now there are %v", first.Clusters, left, next.Clusters)
			}
		}
	}
}

func placedBy(d placement.Selection) placement.Previous {
	prev := placement.Previous{PolicyDigest: d.PolicyDigest, Clusters: map[string]bool{}}
	for _, name := range d.Clusters {
		prev.Clusters[name] = true
	}
	return prev
}

// For every fleet and every previous placement, a PickAll policy picks the clusters that may stay
// or may be picked, and a PickFixed policy the named clusters that are placed or healthy and not
// leaving.
func TestDecideOfOtherTypesIsTheModel(t *testing.T) {
	r := random{rand.New(rand.NewPCG(8, 5))}
	for range 700 {
		full, clusters := r.policy(), r.fleet()
		all := placement.Policy{Required: full.Required, Tolerations: full.Tolerations}
		prev := r.previous(clusters, "")
		m := &model{policy: all, clusters: clusters, previous: prev, edited: true}
		fixed := placement.Policy{Type: placement.PickFixed}
		var wantAll, wantFixed []string
		for _, c := range clusters {
			if m.stays(c) || m.possible(c) {
				wantAll = append(wantAll, c.Name)
			}
			if r.IntN(2) == 0 {
				fixed.ClusterNames = append(fixed.ClusterNames, c.Name)
				if _, placed := prev.Clusters[c.Name]; !c.Leaving && (placed || c.Unhealthy == "") {
					wantFixed = append(wantFixed, c.Name)
				}
			}
		}
		if got, verdicts := decide(t, all, clusters, prev); !slices.Equal(got.Clusters, wantAll) {
			t.Fatalf("policy %+v\nclusters %+v\nprevious %+v\npicked %v, want %v\n%+v", all, clusters, prev, got.Clusters, wantAll, verdicts)
		}
		if len(fixed.ClusterNames) == 0 {
			continue
		}
		if got, verdicts := decide(t, fixed, clusters, prev); !slices.Equal(got.Clusters, wantFixed) {
			t.Fatalf("policy %+v\nclusters %+v\npicked %v, want %v\n%+v", fixed, clusters, got.Clusters, wantFixed, verdicts)
		}
	}
}
