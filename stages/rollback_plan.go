package stages

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages/plan"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// Previous is the state of a cluster in a placement before a run.
type Previous struct {
	// Index and Snapshot are the index and the digest of the snapshot which the
	// cluster was proven to have, Revision is the digest of what it got of that,
	// after overrides. An empty Revision means that it had nothing.
	Index    int
	Snapshot string
	Revision string
	// Keep, if not empty, is the reason why the cluster is not rolled back.
	Keep string
	// Back reports whether the cluster has it again.
	Back bool
}

// RollBack returns the plan that rolls back the run r of the plan p: every cluster that the run may have
// changed goes to what previous has under its name, or to nothing where it has none. The plan has no clusters
// where there is nothing to roll back.
//
// The last stage comes first and in it the last cluster, with the numbers of p: caps, budgets, and what the
// strategy says of attempts, deadlines and health. Of its gates there is one, before the first stage, where
// the strategy's Rollback asks for approval. Clusters that had nothing are cleaned where Rollback says so,
// each group of them in a stage of its own behind the stage that they were in. Clusters that p cleaned
// because they left the placement stay clean. The plan rolls nothing back itself. Of a run that is not one of
// the plan the error is that of [Check].
func RollBack(p *Plan, r *Run, previous map[string]Previous) (*Plan, error) {
	if err := Check(p, r); err != nil {
		return nil, err
	}
	return rollBack(p, r, previous)
}

func rollBack(p *Plan, r *Run, previous map[string]Previous) (*Plan, error) {
	if p.Rollback != nil {
		return nil, fmt.Errorf("run %s takes back what run %s brought, and is not taken back itself: roll out the snapshot that is to be there", r.Name, p.Rollback.Run)
	}
	if p.Strategy.Rollback == nil {
		return nil, fmt.Errorf("run %s: %s", r.Name, noRollback)
	}
	return p.Reverse(reversalOf(p, r, previous))
}

// Touched returns the number of clusters that a run may have changed.
func Touched(p *Plan, r *Run) (n int) {
	for pos, state := range States(p, r) {
		if r.IsTouched(pos, state) {
			n++
		}
	}
	return n
}

// reversalOf returns the target of each cluster that the run may have changed.
func reversalOf(p *Plan, r *Run, previous map[string]Previous) plan.Reversal {
	out := plan.Reversal{Run: r.Name, UID: r.UID, To: map[int]plan.Earlier{}, Kept: map[string][]string{}}
	clusters := runstate.NewLookup(p, r)
	for pos := range p.Clusters {
		c, state := &p.Clusters[pos], clusters.State(pos)
		before := previous[c.Name]
		if !r.IsTouched(pos, state) || before.Back {
			continue
		}
		x, why := runstate.UnsuccessfulAt(r.Unsuccessful, pos), ""
		switch {
		case x != nil && x.Gone:
			why = hasLeft
		case c.Revision < 0:
			why = "the cluster left the placement and was cleaned, and stays so"
		case p.Revisions[c.Revision] == before.Revision && state == Completed:
			continue // it got what it had
		case before.Keep != "":
			why = before.Keep
		case before.Revision == "" && p.Strategy.Rollback.New == LeaveNew:
			why = "the cluster had nothing before, and newClusters is " + string(LeaveNew)
		}
		if why != "" {
			out.Kept[why] = append(out.Kept[why], c.Name)
		} else {
			out.To[pos] = plan.Earlier{Index: before.Index, Snapshot: before.Snapshot, Revision: before.Revision}
		}
	}
	return out
}
