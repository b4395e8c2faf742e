package kubefleet_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

// What is not written yet is named, not dropped.
func TestWriteOfPoliciesThatAreNotWrittenYet(t *testing.T) {
	p := fullPlacement()
	p.Policy = placement.Policy{
		Type: placement.PickN, NumberOfClusters: new(2),
		RequiredTerms: []placement.Term{{}}, Tolerations: []placement.Toleration{{Operator: placement.Exists}},
	}
	_, err := kubefleet.WritePlacement(p)
	fails(t, err, "policy.placementType: Forbidden: is not written yet", "policy.requiredTerms: Forbidden", "policy.tolerations: Forbidden")
	_, err = kubefleet.WriteCluster(placement.Cluster{
		Name: "c", Leaving: true, Unhealthy: "x", Taints: []placement.Taint{{Key: "k", Effect: placement.NoSchedule}},
		Properties: map[string]resource.Quantity{"cpu": resource.MustParse("1")},
	})
	fails(t, err, "properties: Forbidden: is not written yet", "taints: Forbidden", "leaving: Forbidden", "unhealthy: Forbidden")
}
