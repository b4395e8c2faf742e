package step

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// reachGroups starts the groups of a stage that has started, and opens the gates before them. A
// group whose clusters are all skipped does not wait.
func (c course) reachGroups(st *stages.PlannedStage, run *runstate.StageRun) {
	for i := range st.Groups {
		g, gr := &st.Groups[i], &run.Groups[i]
		if !g.IsTracked(st) || gr.Ended != 0 || !runstate.IsNext(g, run) {
			continue
		}
		cur := c.cursor(g, gr)
		cur.passSkipped()
		if gr.Reached == 0 {
			gr.Reached = c.now
			c.changed = true
		}
		if g.Pause {
			c.startClock(&g.Flow, &gr.Clock)
		}
		gs := c.groupGates(run, g, gr)
		if (g.Pause || !c.membersEnded(g, gr)) && gs.pass(approval.Before) {
			c.startClock(&g.Flow, &gr.Clock)
		}
	}
}

// groupsEnded reports whether every group of the stage has ended. open reports whether gates may be
// opened and waited for.
func (c course) groupsEnded(st *stages.PlannedStage, run *runstate.StageRun, open bool) bool {
	ended := c.clustersEnded(st, run)
	for i := range st.Groups {
		if st.Groups[i].IsTracked(st) && !c.groupEnded(run, &st.Groups[i], &run.Groups[i], open) {
			ended = false
		}
	}
	return ended
}

// groupEnded ends a group with gates whose clusters have ended, once the gates after it have
// passed.
func (c course) groupEnded(run *runstate.StageRun, g *stages.PlannedGroup, gr *runstate.GroupRun, open bool) bool {
	switch {
	case gr.Ended != 0:
		return true
	case !c.membersEnded(g, gr) || !gr.PausePassed(g, run) || !runstate.IsNext(g, run):
		return false
	case gr.Done == 0:
		gr.Done = c.now
		c.changed = true
	}
	gs := c.groupGates(run, g, gr)
	if gr.Completed+gr.Failed == 0 && !g.Pause {
		gs.skipOpen()
	} else if !open && !gs.skip && runstate.WaitsAfter(g, gr) || open && !gs.pass(approval.After) {
		return false
	}
	gr.Ended, gr.Deadline = c.now, 0
	c.changed = true
	return true
}
