package kubefleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// picked is the policy of testdata/policies.yaml.
func picked() placement.Policy {
	return placement.Policy{
		Type: placement.PickN, NumberOfClusters: new(2),
		Required: []placement.Term{
			{LabelSelector: *env("prod")},
			{LabelSelector: *env("canary"), Properties: []placement.PropertyRequirement{
				{Name: "kubernetes-fleet.io/node-count", Operator: placement.Ge, Value: resource.MustParse("3")},
				{Name: "resources.kubernetes-fleet.io/available-cpu", Operator: placement.Gt, Value: resource.MustParse("500m")},
			}},
			{},
			{Properties: []placement.PropertyRequirement{{Name: "cost", Operator: placement.Lt, Value: resource.MustParse("1.5")}}},
		},
		Preferred: []placement.Preference{
			{Weight: 20, LabelSelector: env("prod")},
			{Weight: -100, Sorter: &placement.PropertySorter{Name: "cost", Order: placement.Descending}},
			{Weight: 1, LabelSelector: env("canary"), Sorter: &placement.PropertySorter{Name: "resources.kubernetes-fleet.io/total-memory", Order: placement.Ascending}},
			{Weight: 7, LabelSelector: &metav1.LabelSelector{}},
		},
		Spread: []placement.SpreadConstraint{
			{MaxSkew: 2, TopologyKey: "region", WhenUnsatisfiable: placement.ScheduleAnyway},
			{TopologyKey: "zone"},
		},
		Tolerations: []placement.Toleration{
			{Key: "special", Value: "gpu", Effect: placement.NoSchedule}, {Key: "old", Operator: placement.Exists}, {Operator: placement.Exists},
		},
	}
}

// Everything that a policy of KubeFleet can say is read.
func TestReadPolicies(t *testing.T) {
	d := read(t, file(t, "policies.yaml"))
	if diff := cmp.Diff(picked(), d.Placements[0].Policy); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := d.Placements[0].Policy.Validate(); err != nil {
		t.Errorf("the engine does not take it: %v", err)
	}
	want := placement.Cluster{
		Name: "member1", Labels: map[string]string{"region": "west"},
		Taints: []placement.Taint{{Key: "special", Value: "gpu", Effect: placement.NoSchedule}, {Key: "old", Effect: placement.NoSchedule}},
		Properties: map[string]resource.Quantity{
			"kubernetes-fleet.io/node-count":                resource.MustParse("4"),
			"resources.kubernetes-fleet.io/total-cpu":       resource.MustParse("16"),
			"resources.kubernetes-fleet.io/allocatable-cpu": resource.MustParse("15500m"),
			"resources.kubernetes-fleet.io/available-cpu":   resource.MustParse("8"),
		},
	}
	if diff := cmp.Diff(want, d.Clusters[0]); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	c, err := kubefleet.ClusterOf(served(t, file(t, "member-status.yaml")))
	equal(t, "a member whose status is odd", placement.Cluster{Name: "member2", Properties: map[string]resource.Quantity{"good": resource.MustParse("1")}}, c, err)
}

// Policies and clusters come back as they were written.
func TestWritePolicies(t *testing.T) {
	roundTrip(t, read(t, file(t, "policies.yaml")))
	p := fullPlacement()
	p.Policy = picked()
	b, err := kubefleet.WritePlacement(p)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, read(t, string(b)).Placements[0]); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, b)
	}
}

// What a Namespace brings along is read and written, and what an API server fills
// in reads as nothing; envelopes are objects.
func TestSelections(t *testing.T) {
	d := read(t, file(t, "selections.yaml"))
	want := [][]snapshot.Scope{{snapshot.NamespaceOnly, ""}, {snapshot.NamespaceWithResourceSelectors, "", ""}}
	for i, p := range d.Placements {
		var got []snapshot.Scope
		for _, s := range p.Selectors {
			got = append(got, s.Scope)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.Name, diff)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("the engine does not take it: %v", err)
		}
	}
	if len(d.Objects) != 1 || d.Objects[0].GetKind() != "ResourceEnvelope" {
		t.Errorf("objects = %v, want the envelope", d.Objects)
	}
	roundTrip(t, d)
}

// What the format has no place for is named, not dropped.
func TestWriteOfClustersThatTheFormatCannotExpress(t *testing.T) {
	_, err := kubefleet.WriteCluster(placement.Cluster{
		Name: "c", Leaving: true, Unhealthy: "x", Taints: []placement.Taint{{Key: "k", Effect: "NoExecute"}},
	})
	fails(t, err, "leaving: Forbidden: the format has no place for it", "unhealthy: Forbidden", `taints[0].effect: Unsupported value: "NoExecute"`)
}
