package step

import (
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// startClock starts a timeout once its stage or group may start. A timeout that has ended does not
// start again in a run that only continues with its stages and groups with Always.
func (c control) startClock(f *stages.Flow, clock *runstate.Clock) {
	if clock.TimedOut && c.r.form.Closing != nil {
		return
	}
	if f.Timeout.Duration > 0 && clock.Deadline == 0 && c.r.State == stages.Running {
		clock.Deadline, clock.TimedOut = c.now.Add(f.Timeout.Duration), false
		c.changed = true
	}
}

// haltClocks suspends the timeouts and records the time.
func (c control) haltClocks() {
	if c.r.form.Halted == 0 && c.p.Strategy.HasFlow() {
		c.r.form.Halted = c.now
	}
}

// resumeClocks resumes the suspended timeouts.
func (c control) resumeClocks() {
	if c.r.form.Halted == 0 {
		return
	}
	stood := c.now - c.r.form.Halted
	c.r.form.Halted = 0
	if _, run, ok := c.stage(); ok {
		run.PutOff(stood)
		for i := range run.Groups {
			run.Groups[i].PutOff(stood)
		}
	}
}

// timeouts fails stages and groups that have not ended in time.
func (c control) timeouts() {
	st, run, ok := c.stage()
	if !ok || c.r.State != stages.Running {
		return
	}
	if run.IsOver(c.now) {
		c.timeOut(&run.Clock, "stage "+st.Name, st.Timeout.Duration, nil)
	}
	for i := range run.Groups {
		if g := &st.Groups[i]; c.r.State == stages.Running && run.Groups[i].IsOver(c.now) {
			c.timeOut(&run.Groups[i].Clock, "group "+g.Name+" of stage "+st.Name, g.Timeout.Duration, g)
		}
	}
}

// timeOut fails the clusters in flight of a group, or all if g is nil, and the run with them.
func (c control) timeOut(clock *runstate.Clock, what string, after time.Duration, g *stages.PlannedGroup) {
	clock.Deadline, clock.TimedOut = 0, true
	reason := what + " was not done within " + after.String()
	c.exceeded(reason)
	c.eachInFlight(func(f *runstate.InFlight) {
		if g == nil || g.Has(f.Pos) {
			c.failCluster(f, reason)
		}
	})
}
