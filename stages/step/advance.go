package step

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// course moves a run through its stages.
type course struct {
	control
	start *starter
	// blocked names the other run that has the placement; empty if there is none.
	blocked string
}

// advance moves the run on by one transition and reports whether another may
// follow.
func (c course) advance() bool {
	switch c.r.State {
	case stages.NotStarted, stages.Pending:
		return c.begin()
	case stages.Running:
		return c.runStage()
	case stages.Stopping:
		c.countEnded()
		c.endStopping()
		return c.r.State != stages.Stopping
	case stages.Stopped:
		c.countEnded()
	case stages.Failed:
		if !c.r.Final(c.p) {
			c.countEnded()
		}
	default:
	}
	return false
}

// begin starts the run, unless it is on hold or waits for another run.
func (c course) begin() bool {
	if c.r.Hold {
		return false
	}
	if c.blocked != "" {
		if c.r.State != stages.Pending || c.r.Ahead != c.blocked {
			c.set(stages.Pending, "waits for run "+c.blocked)
			c.r.Ahead = c.blocked
			c.emit(stages.Event{Type: stages.RunQueued, Message: c.blocked})
		}
		return false
	}
	c.set(stages.Running, "")
	c.r.Started, c.r.Attempt = c.now, 1
	c.emit(stages.Event{Type: stages.RunStarted, Index: &c.p.Index, Digest: c.p.Digest})
	return true
}

// runStage opens the gates before the current stage, starts clusters, and leaves the stage once
// they have ended and the gates after it have passed.
func (c course) runStage() bool {
	st, run, ok := c.stage()
	if !ok {
		c.finish()
		return false
	}
	if run.Reached == 0 {
		run.Reached, run.State = c.now, stages.Pending
		run.Groups = make([]runstate.GroupRun, len(st.Groups))
		for i := range st.Groups {
			if cells := cellsOf(c.p, c.r.form.Stage, &st.Groups[i]); cells != nil {
				run.Groups[i].Cells = make([]int, len(cells))
			}
		}
		c.changed = true
	}
	if run.Started == 0 {
		if c.allSkipped(st, run) {
			passAllSkipped(c.draft, st, run)
			run.Done = c.now
			return c.leaveSkipped(run)
		}
		if st.Pause {
			c.startClock(&st.Flow, &run.Clock)
		}
		if gs := stageGates(c.draft, st, run); !gs.pass(approval.Before) {
			return false
		}
		run.Started, run.State = c.now, stages.Running
		run.Checks = newCheckRuns(st.Checks, c.now)
		c.emitStage(stages.Event{Type: stages.StageStarted, Count: st.Size()})
	}
	if !st.Pause && run.Done == 0 && !run.IsBroken() {
		c.startClock(&st.Flow, &run.Clock)
	}
	c.reachGroups(st, run)
	if c.checkUsedUp(st, run) {
		return true
	}
	c.start.fill(st, run)
	open := openGroups(run)
	if !c.groupsEnded(st, run, true) {
		return st.HasDependencies() && openGroups(run) < open
	}
	return c.leaveStage(st, run)
}

// reachGroups starts the groups of a stage that has started, and opens the gates before them. A
// group whose clusters are all skipped does not wait.
func (c course) reachGroups(st *stages.PlannedStage, run *runstate.StageRun) {
	for i := range st.Groups {
		g, gr := &st.Groups[i], &run.Groups[i]
		if !g.IsTracked(st) || gr.Ended != 0 || !runstate.IsNext(g, run) {
			continue
		}
		cur := newCursor(c.draft, g, gr)
		cur.passSkipped()
		if gr.Reached == 0 {
			gr.Reached = c.now
			c.changed = true
		}
		if g.Pause {
			c.startClock(&g.Flow, &gr.Clock)
		}
		gs := groupGates(c.draft, run, g, gr)
		if (g.Pause || !c.r.form.MembersEnded(g, gr)) && gs.pass(approval.Before) {
			c.startClock(&g.Flow, &gr.Clock)
		}
	}
}

// allSkipped reports whether every cluster of the stage is skipped already.
func (c course) allSkipped(st *stages.PlannedStage, run *runstate.StageRun) bool {
	left := st.Size()
	switch {
	case st.Pauses():
		return run.SkipGates
	case left == 0:
		return true
	}
	first := st.Groups[0].First
	last := first + left - 1
	for _, e := range c.r.form.Unsuccessful {
		if n := min(e.Last, last) - max(e.First, first) + 1; n > 0 {
			left -= n
		}
	}
	return left == 0
}

// leaveStage moves to the next stage once the after-stage gates have passed. A stage whose clusters
// were all skipped does not wait at them.
func (c course) leaveStage(st *stages.PlannedStage, run *runstate.StageRun) bool {
	if run.Done == 0 {
		run.Done, run.Deadline = c.now, 0
		c.changed = true
	}
	completed, failed := run.Counts()
	if completed+failed == 0 && (!st.Pauses() || run.SkipGates) || run.IsBroken() {
		return c.leaveSkipped(run)
	}
	if gs := stageGates(c.draft, st, run); !gs.pass(approval.After) || blockingChecks(run) != "" {
		return false
	}
	run.State, run.Ended = stages.Completed, c.now
	c.emitStage(stages.Event{Type: stages.StageCompleted, Count: completed})
	c.nextStage()
	return true
}

// leaveSkipped skips the gates of a stage without updates and moves to the next stage.
func (c course) leaveSkipped(run *runstate.StageRun) bool {
	gatesOf(c.draft).close()
	run.Ended, run.Deadline = c.now, 0
	if !run.IsBroken() {
		run.State = stages.Skipped
		c.emitStage(stages.Event{Type: stages.StageSkipped})
	}
	c.nextStage()
	return true
}

// groupsEnded reports whether every group of the stage has ended. open reports whether gates may be
// opened and waited for.
func (c course) groupsEnded(st *stages.PlannedStage, run *runstate.StageRun, open bool) bool {
	ended := c.r.form.ClustersEnded(st, run)
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
	case !c.r.form.MembersEnded(g, gr) || !gr.PausePassed(g, run) || !runstate.IsNext(g, run):
		return false
	case gr.Done == 0:
		gr.Done = c.now
		c.changed = true
	}
	gs := groupGates(c.draft, run, g, gr)
	if gr.Completed+gr.Failed == 0 && !g.Pause {
		gs.skipOpen()
	} else if !open && !gs.skip && runstate.WaitsAfter(g, gr) || open && !gs.pass(approval.After) {
		return false
	}
	gr.Ended, gr.Deadline = c.now, 0
	c.changed = true
	return true
}

// countEnded records when the last cluster of the stage ended while the run is stopped, or has
// failed and may be resumed: waits after the stage count from then, not from the resume.
func (c course) countEnded() {
	st, run, ok := c.stage()
	if !ok || run.Started == 0 || run.Done != 0 {
		return
	}
	passAllSkipped(c.draft, st, run)
	if c.groupsEnded(st, run, false) {
		run.Done = c.now
		c.changed = true
	}
}

// openGroups counts the groups that have not ended.
func openGroups(r *runstate.StageRun) (n int) {
	for i := range r.Groups {
		if r.Groups[i].Ended == 0 {
			n++
		}
	}
	return n
}
