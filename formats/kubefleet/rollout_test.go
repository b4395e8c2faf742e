package kubefleet_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
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

// AtATime returns the number of concurrent updates in the plan: a percentage is rounded down, and
// the number is at least one.
func TestAtATimeEqualsTheConcurrencyOfThePlan(t *testing.T) {
	for _, share := range []string{"", "1%", "25%", "34%", "100%"} {
		for clusters := 1; clusters <= 9; clusters++ {
			rollout := kubefleet.Rollout{Type: v1beta1.RollingUpdateRolloutStrategyType}
			if share != "" {
				rollout.MaxUnavailable = intstr.FromString(share)
			}
			var members []placement.Cluster
			for i := range clusters {
				name := fmt.Sprint("member", i)
				members = append(members, placement.Cluster{Name: name, UID: name})
			}
			target := stages.Target{Placement: "web", Snapshot: "digest", Selection: "digest", Default: "digest"}
			plan, err := planner.Plan(rollout.Strategy(nil), target, members)
			if err != nil {
				t.Fatal(err)
			}
			groups := plan.Stages[0].Groups
			want := groups[len(groups)-1].MaxConcurrency
			if got := rollout.AtATime(clusters); got != want {
				t.Errorf("%q of %d clusters: %d, want %d as in the plan", share, clusters, got, want)
			}
		}
	}
}

func TestOnlyAHubCarriesOutPartsOfAPlacement(t *testing.T) {
	for spec, want := range map[string][]string{
		"strategy: {type: External}": nil,
		"statusReportingScope: ClusterScopeOnly\n  strategy: {type: External, reportBackStrategy: {type: Disabled}}": nil,
		"policy: {placementType: PickAll}": {"spec.strategy.type"},
		"statusReportingScope: NamespaceAccessible\n  strategy: {type: External, reportBackStrategy: {type: Mirror, destination: WorkAPI}}": {
			"spec.strategy.reportBackStrategy.destination", "spec.statusReportingScope",
		},
	} {
		docs := read(t, "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: web}\nspec:\n"+
			"  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: web}]\n  "+spec+"\n")
		var got []string
		for _, e := range docs.Rollouts["web"].OnlyOnHub() {
			got = append(got, e.Field)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}
