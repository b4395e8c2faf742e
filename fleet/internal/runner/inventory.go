package runner

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// inventory finds the clusters of a run that have left the inventory.
type inventory struct {
	plan *stages.Plan
	// read reads the inventory, within patience.
	read     func(context.Context) (map[string]placement.Cluster, error)
	patience time.Duration
	// wake makes the driver look at a changed inventory.
	wake func()
	// told has the last inventory that the driver has not looked at yet.
	told latest[map[string]placement.Cluster]
}

func newInventory(e *engine, plan *stages.Plan, wake func()) *inventory {
	return &inventory{plan: plan, read: e.State.World.Inventory, patience: e.Lease / 5, wake: wake, told: newLatest[map[string]placement.Cluster]()}
}

// tell hands over a changed inventory and wakes the driver. It may be called concurrently.
func (in *inventory) tell(fleet map[string]placement.Cluster) {
	in.told.put(fleet)
	in.wake()
}

// gone returns the clusters of the plan that are no longer in the inventory, or are there with
// another UID. isNew reports whether the inventory has changed. The inventory that was told may be
// older than the plan, so gone reads the inventory again before it reports a cluster.
func (in *inventory) gone(ctx context.Context) (gone []string, isNew bool) {
	fleet, isNew := in.told.take()
	if !isNew || len(missing(in.plan, fleet)) == 0 {
		return nil, isNew
	}
	brief, cancel := context.WithTimeout(ctx, in.patience)
	defer cancel()
	now, err := in.read(brief)
	if err != nil {
		time.AfterFunc(retryFirst, func() { in.tell(fleet) })
		return nil, true
	}
	return missing(in.plan, now), true
}

// missing returns the clusters of a plan that are not in a fleet, or are there with another UID.
func missing(plan *stages.Plan, fleet map[string]placement.Cluster) []string {
	var out []string
	for i := range plan.Clusters {
		c := &plan.Clusters[i]
		now, ok := fleet[c.Name]
		if !ok || c.UID != "" && now.UID != "" && now.UID != c.UID {
			out = append(out, c.Name)
		}
	}
	return out
}
