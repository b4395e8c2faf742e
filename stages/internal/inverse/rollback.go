// Package inverse creates the plan that rolls a run back, from the run's plan and the previous
// contents of its clusters.
package inverse

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Changed is a cluster that a run may have changed.
type Changed struct {
	// Pos is the position of the cluster in the plan, State its state in the run.
	Pos   int
	State stages.State
	// Gone reports whether the cluster has left the inventory.
	Gone bool
}

// Plan returns the plan that rolls back a run of the plan p. step.RollBack checks the run first and
// calls it.
func Plan(p *stages.Plan, name, uid string, changed []Changed, previous map[string]stages.Previous) (*stages.Plan, error) {
	if p.Rollback != nil {
		return nil, fmt.Errorf("run %s rolls back run %s, and cannot be rolled back itself: roll out the snapshot that the clusters should have, by a run with its index", name, p.Rollback.Run)
	}
	if p.Strategy.Rollback == nil {
		return nil, fmt.Errorf("run %s cannot be rolled back: %s", name, values.NoRollback)
	}
	return Reverse(p, reversalOf(p, name, uid, changed, previous))
}

// reversalOf returns the target of each cluster that the run may have changed.
func reversalOf(p *stages.Plan, name, uid string, changed []Changed, previous map[string]stages.Previous) Reversal {
	out := Reversal{Run: name, UID: uid, To: map[int]Earlier{}, Kept: map[string][]string{}}
	for _, x := range changed {
		c := &p.Clusters[x.Pos]
		before, why := previous[c.Name], ""
		switch {
		case before.Back:
			continue
		case x.Gone:
			why = values.HasLeft
		case c.Revision < 0:
			why = "the cluster left the placement and was cleaned, and stays so"
		case p.Revisions[c.Revision] == before.Revision && x.State == stages.Completed:
			continue // the run did not change its content
		case before.Keep != "":
			why = before.Keep
		case before.Revision == "" && p.Strategy.Rollback.New == stages.LeaveNew:
			why = "the cluster had nothing before, and newClusters is " + string(stages.LeaveNew)
		}
		if why != "" {
			out.Kept[why] = append(out.Kept[why], c.Name)
		} else {
			out.To[x.Pos] = Earlier{Index: before.Index, Snapshot: before.Snapshot, Revision: before.Revision}
		}
	}
	return out
}
