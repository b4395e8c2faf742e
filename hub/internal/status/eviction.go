package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// The messages of evictions are KubeFleet's, because kubectl fleet draincluster compares the
// messages of invalid evictions.
const (
	evictionValid           = "Eviction is valid"
	evictionNoPlacement     = "Failed to find ClusterResourcePlacement targeted by eviction"
	evictionDeleting        = "Found deleting ClusterResourcePlacement targeted by eviction"
	evictionPickFixed       = "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction"
	evictionNoDecision      = "Failed to find scheduler decision for placement in cluster targeted by eviction"
	evictionNoBudget        = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
	evictionRemoving        = "Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted by eviction"
	evictionFailed          = "Eviction is allowed, placement has failed"
	evictionNothingPlaced   = "Eviction is blocked, placement has not propagated resources to target cluster yet"
	evictionWrongBudget     = "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement"
	evictionAllowedByBudget = "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: %d, totalPlacements: %d"
	evictionBlockedByBudget = "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: %d, totalPlacements: %d"
	// evictionBlockedByRun is Slipway's own message.
	evictionBlockedByRun = "Eviction is blocked by staged update run %s of the placement, which has not ended: evict again when it has ended or was deleted"
)

// isMisconfigured reports whether the budget cannot be computed for the policy, because the number
// of clusters that PickAll wants is unknown.
func isMisconfigured(b *v1beta1.PlacementDisruptionBudgetSpec, p *placement.Policy) bool {
	return p.Type != placement.PickN && (b.MaxUnavailable != nil || b.MinAvailable != nil && b.MinAvailable.Type == intstr.String)
}

// allows reports whether one available cluster may become unavailable. Percentages refer to the
// number of clusters that a PickN policy wants, and are rounded up. A budget without a bound, or
// with an unreadable one, allows nothing.
func allows(b *v1beta1.PlacementDisruptionBudgetSpec, p *placement.Policy, available, total int) bool {
	wanted := 0
	if p.NumberOfClusters != nil {
		wanted = *p.NumberOfClusters
	}
	switch {
	case b.MaxUnavailable != nil:
		most, err := intstr.GetScaledValueFromIntOrPercent(b.MaxUnavailable, wanted, true)
		return err == nil && most-(total-available) > 0
	case b.MinAvailable != nil:
		least, err := intstr.GetScaledValueFromIntOrPercent(b.MinAvailable, wanted, true)
		return err == nil && available-least > 0
	default:
		return false
	}
}

// EvictionFacts are the input of [JudgeEviction].
type EvictionFacts struct {
	// Cluster is the cluster to evict.
	Cluster string
	// Version is the version of the placement in these facts; empty if the engine has no placement.
	Version string
	// Placement has in Picked all clusters that are picked or may have objects; nil if there is no
	// placement. Deleting reports whether the placement is being deleted.
	Placement *PlacementFacts
	Deleting  bool
	// Removing are the clusters whose objects are being removed.
	Removing map[string]bool
	// Budget is the disruption budget of the placement; nil if it has none.
	Budget *v1beta1.PlacementDisruptionBudgetSpec
	// Run is a staged run of the placement that has not ended; empty if there is none.
	Run string
}

// Eviction is the final answer to an eviction.
type Eviction struct {
	// Valid reports whether there is something to evict, and Executed whether it is removed.
	Valid, Executed bool
	// Carry reports whether the caller must carry out the eviction. Removing reports whether the
	// objects are being removed already, for another reason.
	Carry, Removing bool
	// Message is the reason.
	Message string
}

// JudgeEviction answers an eviction. A cluster whose objects are being removed does not count as
// available, so that simultaneous evictions do not exceed the budget.
func JudgeEviction(f *EvictionFacts) Eviction {
	invalid := func(message string) Eviction { return Eviction{Message: message} }
	blocked := func(message string) Eviction { return Eviction{Valid: true, Message: message} }
	carry := func(message string) Eviction {
		return Eviction{Valid: true, Executed: true, Carry: true, Message: message}
	}
	switch {
	case f.Placement == nil:
		return invalid(evictionNoPlacement)
	case f.Deleting:
		return invalid(evictionDeleting)
	case f.Placement.Placement.Policy.Type == placement.PickFixed:
		return invalid(evictionPickFixed)
	}
	p := placementBuilder{PlacementFacts: f.Placement}
	var target *PlacedCluster
	available, total := 0, len(f.Placement.Picked)
	for i := range f.Placement.Picked {
		c := &f.Placement.Picked[i]
		if c.Name == f.Cluster {
			target = c
		}
		if p.stateOf(c) == stateAvailable && !p.reportsOnly() && !f.Removing[c.Name] {
			available++
		}
	}
	policy := &f.Placement.Placement.Policy
	switch {
	case target == nil:
		return invalid(evictionNoDecision)
	case f.Removing[f.Cluster]:
		return Eviction{Valid: true, Executed: true, Removing: true, Message: evictionRemoving}
	case target.Tried < 0:
		return blocked(evictionNothingPlaced)
	case f.Run != "":
		return blocked(fmt.Sprintf(evictionBlockedByRun, f.Run))
	case p.reportsOnly() || p.stateOf(target) != stateAvailable:
		return carry(evictionFailed)
	case f.Budget == nil:
		return carry(evictionNoBudget)
	case isMisconfigured(f.Budget, policy):
		return blocked(evictionWrongBudget)
	case allows(f.Budget, policy, available, total):
		return carry(fmt.Sprintf(evictionAllowedByBudget, available, total))
	default:
		return blocked(fmt.Sprintf(evictionBlockedByBudget, available, total))
	}
}

// Unevictable returns the answer for a cluster that has nothing left of the placement, or left the
// fleet.
func Unevictable() Eviction { return Eviction{Message: evictionNoDecision} }

// CarriedEviction returns the answer for an eviction that was carried out already. Message is the
// reason that was recorded then.
func CarriedEviction(message string) Eviction {
	return Eviction{Valid: true, Executed: true, Message: message}
}

// Status returns the status of an eviction that is answered at now. Generation is the generation of
// its object.
func (e *Eviction) Status(generation int64, now time.Time) *v1beta1.PlacementEvictionStatus {
	t, at := conditions{observedGeneration: generation}, stages.At(now)
	switch {
	case !e.Valid:
		return &v1beta1.PlacementEvictionStatus{Conditions: []metav1.Condition{t.isFalse(api.ConditionValid, api.ReasonEvictionInvalid, e.Message, at)}}
	case e.Executed:
		return &v1beta1.PlacementEvictionStatus{Conditions: []metav1.Condition{
			t.isTrue(api.ConditionValid, api.ReasonEvictionValid, evictionValid, at),
			t.isTrue(api.ConditionExecuted, api.ReasonEvictionExecuted, e.Message, at),
		}}
	default:
		return &v1beta1.PlacementEvictionStatus{Conditions: []metav1.Condition{
			t.isTrue(api.ConditionValid, api.ReasonEvictionValid, evictionValid, at),
			t.isFalse(api.ConditionExecuted, api.ReasonEvictionNotExecuted, e.Message, at),
		}}
	}
}
