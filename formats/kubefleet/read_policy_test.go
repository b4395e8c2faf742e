package kubefleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

// picked returns the policy of testdata/policies.yaml.
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

// Every feature of a KubeFleet policy is read.
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
