package placement_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
)

func TestPickNValidate(t *testing.T) {
	bad := &metav1.LabelSelector{MatchLabels: map[string]string{"-": "x"}}
	everything := placement.Policy{
		NumberOfClusters: new(1), Preferred: []placement.Preference{{LabelSelector: &metav1.LabelSelector{}}},
		Spread: []placement.SpreadConstraint{{TopologyKey: "zone"}}, Required: []placement.Term{{}},
		Tolerations: []placement.Toleration{{Key: "k", Value: "v"}, {Operator: placement.Exists, Effect: placement.NoSchedule}},
	}
	of := func(t placement.Type) placement.Policy {
		p := everything
		p.Type = t
		return p
	}
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   []string
	}{
		"none":           {pickN(0), nil},
		"everything":     {of(placement.PickN), nil},
		"without number": {placement.Policy{Type: placement.PickN}, []string{"numberOfClusters: Required"}},
		"negative": {
			placement.Policy{Type: placement.PickN, NumberOfClusters: new(-1), ClusterNames: []string{"a"}},
			[]string{"numberOfClusters: Invalid value: -1", "clusterNames: Forbidden"},
		},
		"all": {of(placement.PickAll), []string{"numberOfClusters: Forbidden", "preferred: Forbidden", "topologySpreadConstraints: Forbidden"}},
		"fixed": {of(placement.PickFixed), []string{
			"numberOfClusters: Forbidden", "preferred: Forbidden", "topologySpreadConstraints: Forbidden",
			"required: Forbidden", "tolerations: Forbidden",
		}},
		"terms": {
			requiring(pickN(1), placement.Term{LabelSelector: *bad, Properties: []placement.PropertyRequirement{{Operator: "Is"}, {Name: "a b", Operator: placement.Eq}}}),
			[]string{
				"required[0].matchLabels", "required[0].properties[0].name: Required",
				`required[0].properties[0].operator: Unsupported value: "Is"`, "required[0].properties[1].name: Invalid",
			},
		},
		"preferences": {
			preferring(pickN(1), placement.Preference{Weight: 101}, placement.Preference{Weight: -101, LabelSelector: bad},
				placement.Preference{Sorter: &placement.PropertySorter{Order: "Up"}}),
			[]string{
				"preferred[0].weight: Invalid value: 101: must be from -100 to 100", "preferred[0]: Required", "preferred[1].weight",
				"preferred[1].labelSelector.matchLabels", "preferred[2].sorter.name: Required", `preferred[2].sorter.order: Unsupported value: "Up"`,
			},
		},
		"bounds": {preferring(pickN(1), placement.Preference{Weight: 100, LabelSelector: &metav1.LabelSelector{}}, placement.Preference{Weight: -100, LabelSelector: &metav1.LabelSelector{}}), nil},
		"spread": {
			spreading(pickN(1), placement.SpreadConstraint{MaxSkew: -1, WhenUnsatisfiable: "Never"}, placement.SpreadConstraint{TopologyKey: "zone"},
				placement.SpreadConstraint{TopologyKey: "zone", WhenUnsatisfiable: placement.DoNotSchedule}, placement.SpreadConstraint{TopologyKey: "zone", WhenUnsatisfiable: placement.ScheduleAnyway}),
			[]string{
				"topologySpreadConstraints[0].maxSkew: Invalid value: -1", "topologySpreadConstraints[0].topologyKey: Required",
				`topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Never"`, "topologySpreadConstraints[2].topologyKey: Duplicate",
			},
		},
		"tolerations": {
			tolerating(pickN(1), placement.Toleration{}, placement.Toleration{Key: "k", Operator: placement.Exists, Value: "v"},
				placement.Toleration{Key: "k", Operator: "Like", Effect: "NoExecute"}, placement.Toleration{Key: "a b", Value: "c d"},
				placement.Toleration{Key: "k"}, placement.Toleration{Key: "k", Operator: placement.Equal}),
			[]string{
				"tolerations[0].key: Required", "tolerations[1].value: Forbidden", `tolerations[2].operator: Unsupported value: "Like"`,
				`tolerations[2].effect: Unsupported value: "NoExecute"`, "tolerations[3].key: Invalid", "tolerations[3].value: Invalid", "tolerations[5]: Duplicate",
			},
		},
	} {
		t.Run(name, func(t *testing.T) { fragments(t, tc.policy.Validate(), tc.want) })
	}
	if n := strings.Count(spreading(pickN(1), placement.SpreadConstraint{TopologyKey: "z"}, placement.SpreadConstraint{TopologyKey: "z"}).Validate().Error(), "Duplicate"); n != 1 {
		t.Errorf("a constraint that is there twice is told %d times", n)
	}
}

// full is a policy that says all that a PickN policy can say.
func full(n int) placement.Policy {
	p := pickN(n)
	p.Required = []placement.Term{{LabelSelector: env("x")}, {Properties: []placement.PropertyRequirement{property("cpu", placement.Lt, "4"), property("cpu", placement.Gt, "1")}}}
	p.Preferred = []placement.Preference{{Weight: 1, LabelSelector: new(env("a"))}, {Weight: 2, Sorter: &placement.PropertySorter{Name: "cpu", Order: placement.Ascending}}}
	p.Spread = []placement.SpreadConstraint{{TopologyKey: "zone"}, {TopologyKey: "region", MaxSkew: 2, WhenUnsatisfiable: placement.ScheduleAnyway}}
	p.Tolerations = []placement.Toleration{{Key: "k", Value: "v"}, {Key: "l", Operator: placement.Exists}}
	return p
}

// The digest of a policy depends on its content only: the number, the order and explicit defaults
// do not count, and everything else does.
func TestPolicyDigest(t *testing.T) {
	want := digestOf(t, full(1))
	same := full(2)
	slices.Reverse(same.Required)
	slices.Reverse(same.Required[0].Properties)
	slices.Reverse(same.Preferred)
	slices.Reverse(same.Spread)
	slices.Reverse(same.Tolerations)
	same.Spread[1] = placement.SpreadConstraint{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: placement.DoNotSchedule}
	same.Tolerations[1].Operator = placement.Equal
	same.Required[0].Properties[0].Value = resource.MustParse("1000m")
	if got := digestOf(t, same); got != want {
		t.Error("the number, the order or a default changed the digest")
	}
	for name, edit := range map[string]func(*placement.Policy){
		"required":    func(p *placement.Policy) { p.Required = p.Required[:1] },
		"term":        func(p *placement.Policy) { p.Required[0].LabelSelector = env("y") },
		"property":    func(p *placement.Policy) { p.Required[1].Properties[0].Value = resource.MustParse("5") },
		"weight":      func(p *placement.Policy) { p.Preferred[0].Weight = 3 },
		"order":       func(p *placement.Policy) { p.Preferred[1].Sorter.Order = placement.Descending },
		"skew":        func(p *placement.Policy) { p.Spread[0].MaxSkew = 3 },
		"action":      func(p *placement.Policy) { p.Spread[1].WhenUnsatisfiable = placement.DoNotSchedule },
		"tolerations": func(p *placement.Policy) { p.Tolerations = p.Tolerations[1:] },
	} {
		p := full(1)
		if edit(&p); digestOf(t, p) == want {
			t.Errorf("another %s has the same digest", name)
		}
	}
	b, err := json.Marshal(full(3))
	if err != nil {
		t.Fatal(err)
	}
	var back placement.Policy
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(3), back); diff != "" || digestOf(t, back) != want {
		t.Errorf("after JSON (-before +after):\n%s", diff)
	}
}

// Digests of selections that are stored never change.
func TestDigestsOfStoredSelections(t *testing.T) {
	clusters := []placement.Cluster{{Name: "b", Labels: map[string]string{"region": "x"}}, {Name: "a"}}
	selectors := []placement.Term{
		{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"environment": "canary", "a": "b"}}},
		{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: "In", Values: []string{"x", "y"}}}}},
		{},
	}
	for name, tc := range map[string]struct {
		policy           placement.Policy
		policyDigest, of string
	}{
		"all":      {placement.Policy{}, "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a", "f6cceb291f9cc5e80a1fd787f550784a8404f9c04a991e529ba85192a8d7fb12"},
		"required": {placement.Policy{Type: placement.PickAll, Required: selectors}, "c5163d073c04c928b92d624b936ee4b96721cda0f0484f031bdbd6f515836cf7", "35a15ca5d6c2006f12697c14ade559a340552181e8247cc78fb23fa3ae7dd2db"},
		"fixed":    {placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"b", "a"}}, "e307a1f42b6f116fb7aa4fcabc6d0dd3687923baf15da08061741eef8a12e6b3", "a49b8f37e1093de22d835087a3ec5dc92089af2b2ba88dcb50d5ce7195063ac7"},
	} {
		d, err := placement.Resolve(tc.policy, clusters)
		if err != nil || d.PolicyDigest != tc.policyDigest || d.Digest != tc.of {
			t.Errorf("%s: %+v, %v; want %s and %s", name, d, err, tc.policyDigest, tc.of)
		}
		if again, _ := decide(t, tc.policy, clusters, placement.Previous{}); again.Digest != tc.of {
			t.Errorf("%s: Decide has the digest %s, want %s", name, again.Digest, tc.of)
		}
	}
}

// A record from the time when a term was a bare label selector keeps its meaning and its
// encoding: no term becomes a term that matches all.
func TestTermsAreLabelSelectors(t *testing.T) {
	const old = `{"required":[{"matchLabels":{"environment":"canary"}},{"matchExpressions":[{"key":"region","operator":"In","values":["x"]}]},{}]}`
	d := json.NewDecoder(strings.NewReader(old))
	d.DisallowUnknownFields()
	var p placement.Policy
	if err := d.Decode(&p); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(p); err != nil || string(b) != old {
		t.Errorf("written again: %s, %v\nwant %s", b, err, old)
	}
	p.Required = p.Required[:2]
	got, err := placement.Resolve(p, members("a environment=canary, b environment=prod, c region=x, d region=y"))
	if diff := cmp.Diff([]string{"a", "c"}, got.Clusters); diff != "" || err != nil {
		t.Errorf("picked (-want +got): %v\n%s", err, diff)
	}
}
