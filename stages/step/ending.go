package step

import (
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// Limits for how long clusters in flight may hold up the end of a run.
const (
	// stopGrace applies to a stop if the strategy has no progress deadline.
	stopGrace = 5 * time.Minute
	// drainGrace applies to a supersession while an apply is in flight.
	drainGrace = 30 * time.Second
)

// control decides whether a run continues, and how it ends: by budgets, timeouts, a rollback that
// its strategy requires, and stages and groups with Always.
type control struct{ *draft }

// windDown lets clusters in flight finish and starts none.
func (c control) windDown(ending stages.State, reason, by string) {
	parked := c.r.State != stages.Running && c.r.State != stages.Stopping
	c.haltClocks()
	c.r.Ending = ending
	c.set(stages.Stopping, reason)
	c.emit(stages.Event{Type: stages.RunStopping, By: by, Message: c.r.Reason})
	c.eachInFlight(func(f *runstate.InFlight) {
		if parked || f.Phase == stages.BackingOff {
			c.ground(f)
		}
	})
}

// ground takes a cluster between attempts out of flight.
func (c control) ground(f *runstate.InFlight) {
	switch {
	case f.Drain, c.r.Ending == stages.Stopped, c.r.Ending == stages.Superseded:
		f.Attempt++
		c.reached(f)
		c.retryLater(f, 0, true)
	default:
		c.leave(f, stages.Failed, "not tried again, because the run ends: "+f.Message)
	}
}

func (c control) grace() time.Duration {
	if limit := timeLimit(c.p, &c.r); limit > 0 {
		return limit
	}
	return stopGrace
}

// fail ends the run as failed once nothing is in flight. It does not extend a stop that is under
// way. If a stage or group with Always fails, the rest of its stage is skipped, and the run
// continues with the next stage.
func (c control) fail(reason string) {
	if c.r.form.Closing != nil {
		skipping{c.draft, "not run: " + reason}.stage(c.r.form.Stage)
		c.breakStage(stages.Failed)
		return
	}
	if c.r.State != stages.Stopping {
		c.r.form.StopAt = c.now.Add(c.grace())
	}
	c.windDown(stages.Failed, reason, "")
}

// endStopping ends a run that is Stopping, once nothing is in flight or the time limit is over.
func (c control) endStopping() {
	if c.r.form.Flying() > 0 && (c.r.form.StopAt == 0 || c.now < c.r.form.StopAt) {
		return
	}
	reason := c.r.Reason
	switch c.r.Ending {
	case stages.Failed:
		c.eachInFlight(func(f *runstate.InFlight) { c.abandon(f, stages.Failed, "still in flight when the run failed") })
		if c.runAlways(stages.Failed, reason) {
			return
		}
		c.set(stages.Failed, reason)
		if c.r.Final(c.p) {
			c.dropWaiting(reason)
			gatesOf(c.draft).close()
		}
		c.end(stages.Event{Type: stages.RunFailed, Message: reason})
	case stages.Superseded:
		c.eachInFlight(func(f *runstate.InFlight) { c.abandon(f, stages.Skipped, reason) })
		c.dropWaiting(reason)
		gatesOf(c.draft).close()
		c.set(stages.Superseded, reason)
		c.end(stages.Event{Type: stages.RunSuperseded, Message: reason})
	default:
		c.r.form.StopAt, c.r.Ending = 0, ""
		c.set(stages.Stopped, reason)
		c.emit(stages.Event{Type: stages.RunStopped, Message: reason})
	}
}

// finish ends a run whose last stage is done. A run that failed or was aborted before its stages
// and groups with Always ends in that state, every other run as Completed.
func (c control) finish() {
	if closing := c.r.form.Closing; closing != nil {
		c.set(closing.State, closing.Reason)
		e := stages.Event{Type: stages.RunFailed, Message: closing.Reason}
		if closing.State == stages.Aborted {
			e.Type = stages.RunAborted
		}
		c.end(e)
		return
	}
	total := 0
	for i := range c.r.form.Stages {
		if !c.p.Stages[i].Remove {
			completed, _ := c.r.form.Stages[i].Counts()
			total += completed
		}
	}
	c.set(stages.Completed, "")
	c.end(stages.Event{Type: stages.RunCompleted, Count: total})
}

// end records the end of the run, and of the stage that it was in.
func (c control) end(e stages.Event) {
	if _, st, ok := c.stage(); ok && st.Reached != 0 {
		if st.State = c.r.State; st.State == stages.Superseded {
			st.State = stages.Stopped
		}
	}
	c.r.Ended, c.r.form.StopAt, c.r.Ending = c.now, 0, ""
	c.emit(e)
}

// requestRollback records the request for a rollback if the strategy requires one for this cause.
// It reports whether the run has such a request. An aborted run ends as Aborted and is not rolled
// back, even while its stages and groups with Always run.
func (c control) requestRollback(u stages.RollbackRequest) bool {
	if !c.p.Strategy.Rollback.Includes(u.Cause) || c.r.form.RollbackRequest != nil || c.r.isAborting() {
		return c.r.form.RollbackRequest != nil
	}
	by := u.By.Name
	if u.Cause != stages.OnCommand {
		u.By = c.r.Starter
	}
	u.Message = cut(u.Message)
	c.r.form.RollbackRequest = &u
	c.emit(stages.Event{Type: stages.RollbackRequested, By: by, Message: u.Message})
	return true
}

// cancelRollback drops the request for a rollback: another run has the placement, or the run was
// aborted.
func (c control) cancelRollback() {
	if c.r.form.RollbackRequest != nil {
		c.r.form.RollbackRequest, c.changed = nil, true
	}
}
