package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// fleetOf returns a placement with clusters a, b, and so on, in the states of the letters: A is
// available, U has an update under way, V has an update to the snapshot that it has, F has a failed
// update, and N has nothing.
func fleetOf(states string, policy placement.Policy) *PlacementFacts {
	f := &PlacementFacts{Placement: &fleet.Placement{Policy: policy}, Latest: 1}
	for i, s := range states {
		c := PlacedCluster{Name: string(rune('a' + i)), Index: 1, Tried: 1}
		switch s {
		case 'U':
			c.Index, c.State = 0, stages.Running
		case 'V':
			c.State = stages.Running
		case 'F':
			c.Index, c.State = 0, stages.Failed
		case 'N':
			c.Index, c.Tried = -1, -1
		}
		f.Picked = append(f.Picked, c)
	}
	return f
}

func pickN(n int) placement.Policy {
	return placement.Policy{Type: placement.PickN, NumberOfClusters: &n}
}

func amount(text string) *intstr.IntOrString {
	v := intstr.Parse(text)
	return &v
}

func atMost(text string) *v1beta1.PlacementDisruptionBudgetSpec {
	return &v1beta1.PlacementDisruptionBudgetSpec{MaxUnavailable: amount(text)}
}

func atLeast(text string) *v1beta1.PlacementDisruptionBudgetSpec {
	return &v1beta1.PlacementDisruptionBudgetSpec{MinAvailable: amount(text)}
}

// The evictions of cluster a that budgets allow.
func TestDisruptionBudgets(t *testing.T) {
	t.Parallel()
	all := placement.Policy{}
	for _, c := range []struct {
		name    string
		states  string
		policy  placement.Policy
		removes string
		budget  *v1beta1.PlacementDisruptionBudgetSpec
		allows  bool
		says    string
	}{
		{"none", "AAA", all, "", nil, true, "no ClusterResourcePlacementDisruptionBudget"},
		{"PickAll, one less than there are", "AAA", all, "", atLeast("2"), true, "availablePlacements: 3, totalPlacements: 3"},
		{"PickAll, all", "AAA", all, "", atLeast("3"), false, "availablePlacements: 3, totalPlacements: 3"},
		{"PickAll, others are not available", "AFU", all, "", atLeast("1"), false, "availablePlacements: 1, totalPlacements: 3"},
		{"PickAll, others have nothing yet", "AAN", all, "", atLeast("1"), true, "availablePlacements: 2, totalPlacements: 3"},
		{"PickAll, another one is being evicted", "AAA", all, "b", atLeast("2"), false, "availablePlacements: 2, totalPlacements: 3"},
		{"PickAll, zero", "A", all, "", atLeast("0"), true, "availablePlacements: 1, totalPlacements: 1"},
		{"PickAll, a share", "AAA", all, "", atLeast("10%"), false, "misconfigured"},
		{"PickAll, at most so many", "AAA", all, "", atMost("3"), false, "misconfigured"},
		{"PickN, one may go", "AAA", pickN(3), "", atMost("1"), true, "availablePlacements: 3, totalPlacements: 3"},
		{"PickN, one is gone", "AAF", pickN(3), "", atMost("1"), false, "availablePlacements: 2, totalPlacements: 3"},
		{"PickN, one is being evicted", "AAA", pickN(3), "c", atMost("1"), false, "availablePlacements: 2, totalPlacements: 3"},
		{"PickN, none may go", "AAA", pickN(3), "", atMost("0"), false, "availablePlacements: 3, totalPlacements: 3"},
		{"PickN, a share is rounded up", "AAF", pickN(3), "", atMost("34%"), true, "availablePlacements: 2, totalPlacements: 3"},
		{"PickN, a share of what is wanted, not of what there is", "AA", pickN(10), "", atMost("10%"), true, "availablePlacements: 2, totalPlacements: 2"},
		{"PickN, at least a share, rounded up", "AAA", pickN(3), "", atLeast("50%"), true, "availablePlacements: 3, totalPlacements: 3"},
		{"PickN, at least a share of what is not there", "AA", pickN(4), "", atLeast("50%"), false, "availablePlacements: 2, totalPlacements: 2"},
		{"PickN, all", "AAA", pickN(3), "", atLeast("100%"), false, "availablePlacements: 3, totalPlacements: 3"},
		{"without a bound", "AAA", pickN(3), "", &v1beta1.PlacementDisruptionBudgetSpec{}, false, "availablePlacements: 3, totalPlacements: 3"},
		{"that cannot be read", "AAA", pickN(3), "", atMost("many"), false, "availablePlacements: 3, totalPlacements: 3"},
		{"of a cluster that is not available", "FAA", all, "", atLeast("3"), true, "placement has failed"},
		{"of a cluster to which a run comes again", "VAA", all, "", atLeast("3"), false, "availablePlacements: 3, totalPlacements: 3"},
		{"of a cluster that is being updated", "UAA", all, "", atLeast("3"), true, "placement has failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := JudgeEviction(&EvictionFacts{
				Cluster: "a", Placement: fleetOf(c.states, c.policy), Budget: c.budget, Removing: map[string]bool{c.removes: true},
			})
			if !got.Valid || got.Executed != c.allows || got.Carry != c.allows || !strings.Contains(got.Message, c.says) {
				t.Errorf("it is %+v, want allowed %t and %q", got, c.allows, c.says)
			}
		})
	}
}

// Evictions that are not carried out have KubeFleet's messages and conditions.
func TestEvictionsThatAreNotCarriedOut(t *testing.T) {
	t.Parallel()
	fixed := fleetOf("AA", placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"a", "b"}})
	only := fleetOf("AA", placement.Policy{})
	only.Placement.ApplyStrategy.Type = apply.ReportDiff
	for _, c := range []struct {
		name  string
		facts EvictionFacts
		want  []string
	}{
		{"no placement", EvictionFacts{}, []string{
			"Valid=False ClusterResourcePlacementEvictionInvalid: Failed to find ClusterResourcePlacement targeted by eviction",
		}},
		{"a placement that is being deleted", EvictionFacts{Placement: fleetOf("A", placement.Policy{}), Deleting: true}, []string{
			"Valid=False ClusterResourcePlacementEvictionInvalid: Found deleting ClusterResourcePlacement targeted by eviction",
		}},
		{"PickFixed", EvictionFacts{Placement: fixed}, []string{
			"Valid=False ClusterResourcePlacementEvictionInvalid: Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
		}},
		{"a cluster that is not picked and has nothing", EvictionFacts{Placement: fleetOf("", placement.Policy{})}, []string{
			"Valid=False ClusterResourcePlacementEvictionInvalid: Failed to find scheduler decision for placement in cluster targeted by eviction",
		}},
		{"a cluster that has nothing yet", EvictionFacts{Placement: fleetOf("NA", placement.Policy{})}, []string{
			"Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid",
			"Executed=False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked, placement has not propagated resources to target cluster yet",
		}},
		{"a staged run that has not ended", EvictionFacts{Placement: fleetOf("A", placement.Policy{}), Run: "example-run"}, []string{
			"Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid",
			"Executed=False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked by staged update run example-run of the placement, which has not ended: evict again when it has ended or was deleted",
		}},
		{"a cluster that is being cleaned", EvictionFacts{Placement: fleetOf("A", placement.Policy{}), Removing: map[string]bool{"a": true}}, []string{
			"Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid",
			"Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction",
		}},
		{"a placement that only reports", EvictionFacts{Placement: only, Budget: atLeast("2")}, []string{
			"Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid",
			"Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, placement has failed",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.facts.Cluster = "a"
			answer := JudgeEviction(&c.facts)
			var got []string
			for _, condition := range answer.Status(3, time.Unix(1700000000, 0)).Conditions {
				got = append(got, fmt.Sprintf("%s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
				if condition.ObservedGeneration != 3 || condition.LastTransitionTime.Unix() != 1700000000 {
					t.Errorf("%s is of generation %d and %v", condition.Type, condition.ObservedGeneration, condition.LastTransitionTime)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the conditions are %q, want %q", got, c.want)
			}
			if answer.Carry && c.name != "a placement that only reports" {
				t.Error("it is to be carried out")
			}
		})
	}
}

func TestBindings(t *testing.T) {
	t.Parallel()
	got := Bindings([]string{"a", "b"}, []string{"b", "c"})
	want := []Binding{{Cluster: "a", State: "Scheduled"}, {Cluster: "b", State: "Bound"}, {Cluster: "c", State: "Unscheduled"}}
	if !slices.Equal(got, want) {
		t.Errorf("they are %v, want %v", got, want)
	}
	if BindingName("a-b", "c") == BindingName("a", "b-c") {
		t.Error("the bindings of two placements have one name")
	}
}
