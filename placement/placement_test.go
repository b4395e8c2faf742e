package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
)

func env(value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{"environment": value}}
}

func tutorial() []placement.Cluster {
	return []placement.Cluster{
		{Name: "member1", Labels: map[string]string{"environment": "canary", "order": "2"}},
		{Name: "member2", Labels: map[string]string{"environment": "staging"}},
		{Name: "member3", Labels: map[string]string{"environment": "canary", "order": "1"}},
	}
}

// fragments checks that err holds every fragment; none means no error.
func fragments(t *testing.T, err error, want []string) {
	t.Helper()
	if (err == nil) != (len(want) == 0) {
		t.Fatalf("error = %v, want one with %q", err, want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error = %v\nwant it to contain %q", err, w)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	bad := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   []string
	}{
		"zero":           {placement.Policy{}, nil},
		"all":            {placement.Policy{Type: placement.PickAll, Required: []placement.Term{{LabelSelector: env("canary")}, {}}}, nil},
		"fixed":          {placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"b", "a"}}, nil},
		"unknown type":   {placement.Policy{Type: "PickSome"}, []string{"placementType", `"PickSome"`, "PickAll", "PickFixed", "PickN"}},
		"all with names": {placement.Policy{ClusterNames: []string{"a"}}, []string{"clusterNames: Forbidden"}},
		"fixed without names": {
			placement.Policy{Type: placement.PickFixed, Required: []placement.Term{{}}},
			[]string{"required: Forbidden"},
		},
		"everything at once": {
			placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"A", "b", "b", ""}},
			[]string{"clusterNames[0]", "clusterNames[2]: Duplicate", "clusterNames[3]"},
		},
		"selectors": {
			placement.Policy{Required: []placement.Term{{LabelSelector: bad}, {LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"-": "x"}}}}},
			[]string{"required[0].matchExpressions[0].operator", "required[1].matchLabels"},
		},
	} {
		t.Run(name, func(t *testing.T) { fragments(t, tc.policy.Validate(), tc.want) })
	}
}

func TestValidateClusters(t *testing.T) {
	err := placement.ValidateClusters([]placement.Cluster{{Name: "b"}, {Name: "UP"}, {Name: "a"}, {Name: "b"}, {Name: ""}, {Name: "b"}})
	fragments(t, err, []string{"clusters[b].name: Duplicate", "3 clusters", "clusters[UP]", "clusters[].name"})
	if n := strings.Count(err.Error(), "Duplicate"); n != 1 {
		t.Errorf("the duplicate is told %d times, want once: %v", n, err)
	}
	fragments(t, placement.ValidateClusters(tutorial()), nil)
	fragments(t, placement.ValidateClusters(nil), nil)
	for _, good := range []string{"a", "0", "a-b", strings.Repeat("x", 63)} {
		fragments(t, placement.ValidateClusters([]placement.Cluster{{Name: good}}), nil)
	}
	for _, bad := range []string{"-a", "a-", "a.b", "a_b", "é", strings.Repeat("x", 64)} {
		fragments(t, placement.ValidateClusters([]placement.Cluster{{Name: bad}}), []string{"clusters["})
	}
}

func TestResolve(t *testing.T) {
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   []string
	}{
		"all":          {placement.Policy{}, []string{"member1", "member2", "member3"}},
		"fixed":        {placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member3", "member1"}}, []string{"member1", "member3"}},
		"required":     {placement.Policy{Required: []placement.Term{{LabelSelector: env("canary")}}}, []string{"member1", "member3"}},
		"ored":         {placement.Policy{Required: []placement.Term{{LabelSelector: env("staging")}, {LabelSelector: env("none")}}}, []string{"member2"}},
		"empty picks":  {placement.Policy{Required: []placement.Term{{}}}, []string{"member1", "member2", "member3"}},
		"none matches": {placement.Policy{Required: []placement.Term{{LabelSelector: env("none")}}}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := placement.Resolve(tc.policy, tutorial())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, d.Clusters); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if d.Index != 0 || len(d.Digest) != 64 || len(d.PolicyDigest) != 64 {
				t.Errorf("selection = %+v, want index 0 and two sha256 in hex", d)
			}
		})
	}
}

func TestResolveErrors(t *testing.T) {
	_, err := placement.Resolve(placement.Policy{Type: "PickSome"}, tutorial())
	fragments(t, err, []string{"placement policy", "placementType"})
	_, err = placement.Resolve(placement.Policy{}, append(tutorial(), tutorial()[0]))
	fragments(t, err, []string{"cluster inventory", "clusters[member1].name: Duplicate"})
}

// A selection depends on the content of the policy and the picked clusters, not on the order or
// the form of the input.
func TestResolveDigests(t *testing.T) {
	resolve := func(p placement.Policy, c []placement.Cluster) placement.Selection {
		t.Helper()
		d, err := placement.Resolve(p, c)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	all := resolve(placement.Policy{}, tutorial())
	if diff := cmp.Diff(all, resolve(placement.Policy{Type: placement.PickAll}, tutorial())); diff != "" {
		t.Errorf("an empty type is PickAll (-empty +PickAll):\n%s", diff)
	}
	joined := resolve(placement.Policy{}, append(tutorial(), placement.Cluster{Name: "member4"}))
	if joined.PolicyDigest != all.PolicyDigest || joined.Digest == all.Digest {
		t.Errorf("a cluster that joins changes Digest only: %+v, %+v", all, joined)
	}
	fixed := placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member2", "member3"}}
	if d := resolve(fixed, tutorial()); d.PolicyDigest == all.PolicyDigest || d.Digest == all.Digest {
		t.Errorf("another policy that picks the same clusters has other digests: %+v", d)
	}
	const golden = "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a"
	if all.PolicyDigest != golden {
		t.Errorf("policy digest = %s, want %s: stored selections would count as edited", all.PolicyDigest, golden)
	}
}

func TestResolveIgnoresOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		clusters := make([]placement.Cluster, rnd.IntN(30))
		names := make([]string, len(clusters))
		for i := range clusters {
			names[i] = fmt.Sprintf("c%d", i)
			clusters[i] = placement.Cluster{Name: names[i], Labels: map[string]string{"environment": string(rune('a' + rnd.IntN(3)))}}
		}
		policy := placement.Policy{Required: []placement.Term{{LabelSelector: env("a")}, {LabelSelector: env("b")}}}
		if len(names) > 0 && rnd.IntN(2) == 0 {
			policy = placement.Policy{Type: placement.PickFixed, ClusterNames: names[:1+rnd.IntN(len(names))]}
		}
		want, err := placement.Resolve(policy, clusters)
		if err != nil {
			t.Fatal(err)
		}
		rnd.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
		policy.ClusterNames = slices.Clone(policy.ClusterNames)
		slices.Reverse(policy.ClusterNames)
		slices.Reverse(policy.Required)
		before := slices.Clone(clusters)
		got, err := placement.Resolve(policy, clusters)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the order changed the selection:\n%s", diff)
		}
		if diff := cmp.Diff(before, clusters); diff != "" {
			t.Fatalf("Resolve changed its argument:\n%s", diff)
		}
	}
}

func BenchmarkResolve100000(b *testing.B) {
	clusters := make([]placement.Cluster, 100_000)
	for i := range clusters {
		clusters[i] = placement.Cluster{Name: fmt.Sprintf("cluster-%06d", i), Labels: map[string]string{"environment": fmt.Sprint(i % 3)}}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	policy := placement.Policy{Required: []placement.Term{{LabelSelector: env("0")}, {LabelSelector: env("1")}}}
	for b.Loop() {
		if _, err := placement.Resolve(policy, clusters); err != nil {
			b.Fatal(err)
		}
	}
}

// One error lists all problems of a policy, of the inventory and of both together.
func TestEveryProblemOfASelectionIsReported(t *testing.T) {
	p := placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"a", "a", "gone", "gone"}, NumberOfClusters: new(1)}
	_, _, err := placement.Decide(p, []placement.Cluster{{Name: "a"}, {Name: "b"}, {Name: "b"}}, placement.Previous{})
	fragments(t, err, []string{"clusterNames[1]: Duplicate", "numberOfClusters", "cluster inventory: ", `"b"`})
}
