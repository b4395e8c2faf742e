package stages

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// reachGroups lets the run come to the groups of a stage that has started, and
// opens what is before them. A group of which all clusters are skipped does not
// wait.
func (d *draft) reachGroups(st *PlannedStage, run *StageRun) {
	for i := range st.Groups {
		g, gr := &st.Groups[i], &run.Groups[i]
		if !g.IsTracked(st) || gr.Ended != 0 || !runstate.IsNext(g, run) {
			continue
		}
		c := d.cursor(g, gr)
		c.passSkipped()
		if gr.Reached == 0 {
			gr.Reached = d.now
			d.changed = true
		}
		if g.Pause {
			d.startClock(&g.Flow, &gr.Clock)
		}
		gs := d.groupGates(run, g, gr)
		if (g.Pause || !d.membersEnded(g, gr)) && gs.pass(approval.Before) {
			d.startClock(&g.Flow, &gr.Clock)
		}
	}
}

// groupsEnded reports whether every group of the stage has ended; open says
// whether gates may be opened and waited for.
func (d *draft) groupsEnded(st *PlannedStage, run *StageRun, open bool) bool {
	ended := d.clustersEnded(st, run)
	for i := range st.Groups {
		if st.Groups[i].IsTracked(st) && !d.groupEnded(run, &st.Groups[i], &run.Groups[i], open) {
			ended = false
		}
	}
	return ended
}

// groupEnded ends a group with gates whose clusters have ended, once those
// after it have passed.
func (d *draft) groupEnded(run *StageRun, g *PlannedGroup, gr *GroupRun, open bool) bool {
	switch {
	case gr.Ended != 0:
		return true
	case !d.membersEnded(g, gr) || !gr.PausePassed(g, run) || !runstate.IsNext(g, run):
		return false
	case gr.Done == 0:
		gr.Done = d.now
		d.changed = true
	}
	gs := d.groupGates(run, g, gr)
	if gr.Completed+gr.Failed == 0 && !g.Pause {
		gs.skipOpen()
	} else if !open && runstate.WaitsAfter(g, gr) || open && !gs.pass(approval.After) {
		return false
	}
	gr.Ended, gr.Deadline = d.now, 0
	d.changed = true
	return true
}

// reopen takes back that the clusters of the stage, and of the group, of pos
// have ended, with what is after them.
func (d *draft) reopen(pos int) {
	_, run, _ := d.stage()
	run.Done = 0
	run.Gates = reopen(run.Gates)
	_, gr := d.groupOf(pos)
	gr.Done, gr.Ended, gr.SkipGates = 0, 0, false
	unskip(gr.Gates)
	gr.Gates = reopen(gr.Gates)
	d.changed = true
}
