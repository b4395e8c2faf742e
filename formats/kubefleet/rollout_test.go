package kubefleet_test

import (
	"testing"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

func TestAStatusIsReportedToItsOriginalForOneCluster(t *testing.T) {
	one, two := 1, 2
	for _, c := range []struct {
		name   string
		policy placement.Policy
		want   bool
	}{
		{"all, by default", placement.Policy{}, false},
		{"all", placement.Policy{Type: placement.PickAll}, false},
		{"one by name", placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"a"}}, true},
		{"two by name", placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"a", "b"}}, false},
		{"one by number", placement.Policy{Type: placement.PickN, NumberOfClusters: &one}, true},
		{"two by number", placement.Policy{Type: placement.PickN, NumberOfClusters: &two}, false},
		{"no number", placement.Policy{Type: placement.PickN}, false},
	} {
		if got := kubefleet.ReportsToOriginal(c.policy); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
