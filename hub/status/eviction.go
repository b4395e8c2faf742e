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

// The messages of evictions are KubeFleet's: kubectl fleet draincluster compares those of what is not valid.
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
	// evictionBlockedByRun is Slipway's own.
	evictionBlockedByRun = "Eviction is blocked by staged update run %s of the placement, which has not ended: evict again when it has ended or was deleted"
)

// isMisconfigured reports whether the budget is one that cannot be reckoned for the policy: how many clusters PickAll
// wants is not known.
func isMisconfigured(b *v1beta1.PlacementDisruptionBudgetSpec, p *placement.Policy) bool {
	return p.Type != placement.PickN && (b.MaxUnavailable != nil || b.MinAvailable != nil && b.MinAvailable.Type == intstr.String)
}

// allows reports whether one of the clusters that are available may become unavailable. Shares are of the number that
// a PickN policy wants, rounded up. A budget without a bound allows nothing, and neither does one that cannot be read.
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

// EvictionFacts are what an eviction is judged by.
type EvictionFacts struct {
	// Cluster is the one to evict.
	Cluster string
	// Version is the version of the placement at which the facts were read, empty if the engine has no placement.
	Version string
	// Placement is what is known of the placement, with all clusters in Picked that are picked or may have something; nil
	// where there is none. Deleting reports whether it is being deleted.
	Placement *PlacementFacts
	Deleting  bool
	// Removing are the clusters that are being cleaned.
	Removing map[string]bool
	// Budget is that of the placement, nil where there is none.
	Budget *v1beta1.PlacementDisruptionBudgetSpec
	// Run is a staged run of the placement that has not ended, "" for none.
	Run string
}

// Eviction is the answer to an eviction, which is final.
type Eviction struct {
	// Valid reports whether there is something to evict, and Executed whether it is taken away.
	Valid, Executed bool
	// Carry reports whether it has to be carried out yet, Removing whether something else removes what it would already.
	Carry, Removing bool
	// Message says why.
	Message string
}

// JudgeEviction answers an eviction. What is being cleaned is not available any more, so that evictions which come
// together do not take more than the budget allows.
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

// Unevictable is the answer to the eviction of a cluster that has nothing any more, or left the fleet.
func Unevictable() Eviction { return Eviction{Message: evictionNoDecision} }

// CarriedEviction is the answer to an eviction that is carried out already, for the reason that was recorded with that.
func CarriedEviction(message string) Eviction {
	return Eviction{Valid: true, Executed: true, Message: message}
}

// Status is the status of an eviction that was answered now, in a generation of its object.
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
