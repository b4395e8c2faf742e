// Package inverse makes the plan that rolls a run back, from the run's plan and what its clusters had before.
package inverse

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Plan returns the plan that rolls back the run r of the plan p, see planner.RollBack, which checks the run first.
func Plan(p *stages.Plan, r *stages.Run, previous map[string]stages.Previous) (*stages.Plan, error) {
	if p.Rollback != nil {
		return nil, fmt.Errorf("run %s takes back what run %s brought, and is not taken back itself: roll out the snapshot that is to be there", r.Name, p.Rollback.Run)
	}
	if p.Strategy.Rollback == nil {
		return nil, fmt.Errorf("run %s: %s", r.Name, values.NoRollback)
	}
	return Reverse(p, reversalOf(p, r, previous))
}

// reversalOf returns the target of each cluster that the run may have changed.
func reversalOf(p *stages.Plan, r *stages.Run, previous map[string]stages.Previous) Reversal {
	out := Reversal{Run: r.Name, UID: r.UID, To: map[int]Earlier{}, Kept: map[string][]string{}}
	clusters := stages.NewLookup(p, r)
	for pos := range p.Clusters {
		c, state := &p.Clusters[pos], clusters.State(pos)
		before := previous[c.Name]
		if !r.IsTouched(pos, state) || before.Back {
			continue
		}
		x, why := stages.UnsuccessfulAt(r.Unsuccessful, pos), ""
		switch {
		case x != nil && x.Gone:
			why = values.HasLeft
		case c.Revision < 0:
			why = "the cluster left the placement and was cleaned, and stays so"
		case p.Revisions[c.Revision] == before.Revision && state == stages.Completed:
			continue // it got what it had
		case before.Keep != "":
			why = before.Keep
		case before.Revision == "" && p.Strategy.Rollback.New == stages.LeaveNew:
			why = "the cluster had nothing before, and newClusters is " + string(stages.LeaveNew)
		}
		if why != "" {
			out.Kept[why] = append(out.Kept[why], c.Name)
		} else {
			out.To[pos] = Earlier{Index: before.Index, Snapshot: before.Snapshot, Revision: before.Revision}
		}
	}
	return out
}
