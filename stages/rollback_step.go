package stages

// undo takes in that what the run brought is to be taken back, where the strategy
// asks for it, and reports whether it does. A run that was aborted ends as that, also
// where what runs always still does, and takes nothing back.
func (s *stepper) undo(u Undo) bool {
	if !s.p.Strategy.Rollback.Includes(u.Cause) || s.r.Undo != nil || s.r.IsAborting() {
		return s.r.Undo != nil
	}
	by := u.By.Name
	if u.Cause != OnCommand {
		u.By = s.r.Starter
	}
	u.Message = cut(u.Message)
	s.r.Undo = &u
	s.emit(Event{Type: RollbackRequested, By: by, Message: u.Message})
	return true
}

// forgetUndo takes in that nothing is taken back: somebody else has the
// placement, or nobody wants the run to do anything more.
func (s *stepper) forgetUndo() {
	if s.r.Undo != nil {
		s.r.Undo, s.changed = nil, true
	}
}

// takeBack carries the command out that asks for it.
func (s *stepper) takeBack(c Command) {
	u := Undo{Cause: OnCommand, Run: c.Name, By: c.By, Message: reasonBy("taken back", c)}
	s.undo(u)
	if s.r.State == Failed { // a run that might have been started again is at its end now
		s.dropWaiting(u.Message)
		s.closeGates()
		return
	}
	s.fail(u.Message)
}

// untakeable returns why what the run brought cannot be taken back now, or "".
func (s *stepper) untakeable() string {
	switch {
	case s.p.Strategy.Rollback == nil:
		return noRollback
	case s.r.Started == 0:
		return "the run has not changed anything yet: abort it"
	case s.r.Undo != nil:
		return "it is being taken back already"
	case s.r.State == Stopping && s.r.Ending == Superseded:
		return "the run is ending: it will be " + string(s.r.Ending)
	case s.r.IsAborting():
		return "the run was aborted, and is in its steps that run always: take it back when it has ended"
	default:
		return ""
	}
}

// noRollback is why a run is not taken back whose strategy does not say how.
const noRollback = "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
