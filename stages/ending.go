package stages

import "time"

// Bounds of how long what is in flight may hold up the end of a run.
const (
	// stopGrace is how long clusters in flight may hold up a stop, where the
	// strategy has no progress deadline.
	stopGrace = 5 * time.Minute
	// drainGrace is how long an apply in flight may hold up a supersession.
	drainGrace = 30 * time.Second
)

// control decides whether a run goes on, and how it ends: by budgets, timeouts, the
// rollback that its strategy asks for, and what runs always.
type control struct{ *draft }

// windDown lets clusters in flight finish and starts none.
func (c control) windDown(ending State, reason, by string) {
	parked := c.r.State != Running && c.r.State != Stopping
	c.haltClocks()
	c.r.Ending = ending
	c.set(Stopping, reason)
	c.emit(Event{Type: RunStopping, By: by, Message: c.r.Reason})
	c.eachInFlight(func(f *InFlight) {
		if parked || f.Phase == BackingOff {
			c.ground(f)
		}
	})
}

// ground takes a cluster between attempts out of flight.
func (c control) ground(f *InFlight) {
	switch {
	case f.Drain, c.r.Ending == Stopped, c.r.Ending == Superseded:
		f.Attempt++
		c.reached(f)
		c.retryLater(f, 0, true)
	default:
		c.leave(f, Failed, "not tried again, because the run ends: "+f.Message)
	}
}

func (c control) grace() time.Duration {
	if limit := c.deadline(); limit > 0 {
		return limit
	}
	return stopGrace
}

// fail ends the run as failed once nothing is in flight. It does not extend a stop under way. If a part that
// runs always fails, the rest of its stage is skipped, and the run goes on with the next.
func (c control) fail(reason string) {
	if c.r.Closing != nil {
		skipping{c.draft, "not run: " + reason}.stage(c.r.Stage)
		c.breakStage(Failed)
		return
	}
	if c.r.State != Stopping {
		c.r.StopAt = c.now.Add(c.grace())
	}
	c.windDown(Failed, reason, "")
}

// endStopping ends a run that is Stopping, once nothing is in flight or it has
// been waited for long enough.
func (c control) endStopping() {
	if c.inFlight() > 0 && (c.r.StopAt == 0 || c.now < c.r.StopAt) {
		return
	}
	reason := c.r.Reason
	switch c.r.Ending {
	case Failed:
		c.eachInFlight(func(f *InFlight) { c.leave(f, Failed, "still in flight when the run failed") })
		if c.runAlways(Failed, reason) {
			return
		}
		c.set(Failed, reason)
		if c.r.Final(c.p) {
			c.dropWaiting(reason)
			c.closeGates()
		}
		c.end(Event{Type: RunFailed, Message: reason})
	case Superseded:
		c.eachInFlight(func(f *InFlight) { c.leave(f, Skipped, reason) })
		c.dropWaiting(reason)
		c.closeGates()
		c.set(Superseded, reason)
		c.end(Event{Type: RunSuperseded, Message: reason})
	default:
		c.r.StopAt, c.r.Ending = 0, ""
		c.set(Stopped, reason)
		c.emit(Event{Type: RunStopped, Message: reason})
	}
}

// finish ends a run whose last stage is done: as completed or, if it had failed or was aborted before what
// runs always, as that.
func (c control) finish() {
	if closing := c.r.Closing; closing != nil {
		c.set(closing.State, closing.Reason)
		e := Event{Type: RunFailed, Message: closing.Reason}
		if closing.State == Aborted {
			e.Type = RunAborted
		}
		c.end(e)
		return
	}
	total := 0
	for i := range c.r.Stages {
		if !c.p.Stages[i].Remove {
			completed, _ := c.r.Stages[i].Counts()
			total += completed
		}
	}
	c.set(Completed, "")
	c.end(Event{Type: RunCompleted, Count: total})
}

// end records the end of the run, and of the stage that it was in.
func (c control) end(e Event) {
	if _, st, ok := c.stage(); ok && st.Reached != 0 {
		if st.State = c.r.State; st.State == Superseded {
			st.State = Stopped
		}
	}
	c.r.Ended, c.r.StopAt, c.r.Ending = c.now, 0, ""
	c.emit(e)
}

// requestRollback records that the run is to be rolled back, where the strategy asks for it, and reports
// whether it does. A run that was aborted ends as Aborted, also while steps that run always still run, and is
// not rolled back.
func (c control) requestRollback(u RollbackRequest) bool {
	if !c.p.Strategy.Rollback.Includes(u.Cause) || c.r.RollbackRequest != nil || c.r.IsAborting() {
		return c.r.RollbackRequest != nil
	}
	by := u.By.Name
	if u.Cause != OnCommand {
		u.By = c.r.Starter
	}
	u.Message = cut(u.Message)
	c.r.RollbackRequest = &u
	c.emit(Event{Type: RollbackRequested, By: by, Message: u.Message})
	return true
}

// cancelRollback drops the request for a rollback: another run has the placement, or the run was aborted.
func (c control) cancelRollback() {
	if c.r.RollbackRequest != nil {
		c.r.RollbackRequest, c.changed = nil, true
	}
}

// noRollback is the reason why a run whose strategy has no Rollback is not rolled back.
const noRollback = "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
