package stages

// undo takes in that what the run brought is to be taken back, where the strategy
// asks for it, and reports whether it does. A run that was aborted ends as that, also
// where what runs always still does, and takes nothing back.
func (c control) undo(u Undo) bool {
	if !c.p.Strategy.Rollback.Includes(u.Cause) || c.r.Undo != nil || c.r.IsAborting() {
		return c.r.Undo != nil
	}
	by := u.By.Name
	if u.Cause != OnCommand {
		u.By = c.r.Starter
	}
	u.Message = cut(u.Message)
	c.r.Undo = &u
	c.emit(Event{Type: RollbackRequested, By: by, Message: u.Message})
	return true
}

// forgetUndo takes in that nothing is taken back: another run has the placement, or
// the run was aborted.
func (c control) forgetUndo() {
	if c.r.Undo != nil {
		c.r.Undo, c.changed = nil, true
	}
}

// takeBack carries the command out that asks for a rollback.
func (c control) takeBack(cmd Command) {
	u := Undo{Cause: OnCommand, Run: cmd.Name, By: cmd.By, Message: reasonBy("taken back", cmd)}
	c.undo(u)
	if c.r.State == Failed { // a run that might have been started again is at its end now
		c.dropWaiting(u.Message)
		c.closeGates()
		return
	}
	c.fail(u.Message)
}

// untakeable returns why what the run brought cannot be taken back now, or "".
func (d *draft) untakeable() string {
	switch {
	case d.p.Strategy.Rollback == nil:
		return noRollback
	case d.r.Started == 0:
		return "the run has not changed anything yet: abort it"
	case d.r.Undo != nil:
		return "it is being taken back already"
	case d.r.State == Stopping && d.r.Ending == Superseded:
		return "the run is ending: it will be " + string(d.r.Ending)
	case d.r.IsAborting():
		return "the run was aborted, and is in its steps that run always: take it back when it has ended"
	default:
		return ""
	}
}

// noRollback is why a run is not taken back whose strategy does not say how.
const noRollback = "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
