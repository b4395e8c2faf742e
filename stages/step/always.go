package step

import (
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// runAlways lets a run that has failed or was aborted, and has nothing in flight, continue with its
// stages and groups with Always. It returns false if none are left or the run has already begun
// them.
func (c control) runAlways(state stages.State, reason string) bool {
	if c.r.form.Closing != nil || c.r.Started == 0 || !c.alwaysLeft() {
		return false
	}
	c.r.form.Closing = &runstate.Closing{State: state, Reason: cut(reason)}
	c.r.Ending, c.r.form.StopAt = "", 0
	c.resumeClocks()
	skip := skipping{c.draft, "not run: " + reason}
	for i := c.r.form.Stage; i < len(c.p.Stages); i++ {
		st := &c.p.Stages[i]
		if st.Always && i > c.r.form.Stage {
			continue
		}
		if !slices.ContainsFunc(st.Groups, func(g stages.PlannedGroup) bool { return g.Always }) {
			skip.stage(i)
			continue
		}
		for j := range st.Groups {
			if !st.Groups[j].Always {
				skip.group(i, j)
			}
		}
	}
	c.breakStage(state)
	c.set(stages.Running, reason)
	c.emit(stages.Event{Type: stages.RunClosing, Message: c.r.Reason})
	c.timeouts() // timeouts that were about to end when the run began to stop
	return true
}

// alwaysLeft reports whether a stage or a group runs always and has not ended.
func (c control) alwaysLeft() bool {
	for i := c.r.form.Stage; i < len(c.p.Stages); i++ {
		st, run := &c.p.Stages[i], &c.r.form.Stages[i]
		switch {
		case run.SkipGates:
			continue
		case st.Always && i > c.r.form.Stage:
			return true
		}
		for j := range st.Groups {
			g := &st.Groups[j]
			switch {
			case !g.Always:
			case len(run.Groups) == 0, g.Pause && run.Groups[j].Ended == 0, !g.Pause && !c.r.form.MembersEnded(g, &run.Groups[j]):
				return true
			}
		}
	}
	return false
}

// breakStage records that the run broke off in the current stage.
func (c control) breakStage(state stages.State) {
	if _, run, ok := c.stage(); ok && run.Reached != 0 {
		run.State, run.Deadline = state, 0 // its groups with Always have their own timeouts
		c.changed = true
	}
}
