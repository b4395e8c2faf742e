package stages

import (
	"slices"
	"time"
)

// closes makes a run that has failed or was aborted, and of which nothing is in
// flight, go on with what runs always; false where there is nothing of that, or
// the run is at it already.
func (s *stepper) closes(state State, reason string) bool {
	if s.r.Closing != nil || s.r.Started == 0 || !s.alwaysLeft() {
		return false
	}
	s.r.Closing = &Closing{State: state, Reason: cut(reason)}
	s.r.Ending, s.r.StopAt = "", 0
	s.goOn()
	for i := s.r.Stage; i < len(s.p.Stages); i++ {
		s.skipUnlessAlways(i, "not run: "+reason)
	}
	s.breakStage(state)
	s.set(Running, reason)
	s.emit(Event{Type: RunClosing, Message: s.r.Reason})
	s.timeouts() // of what was about to be late when the run began to stop
	return true
}

// alwaysLeft reports whether a stage or a group runs always and has not begun to fail.
func (s *stepper) alwaysLeft() bool {
	for i := s.r.Stage; i < len(s.p.Stages); i++ {
		st := &s.p.Stages[i]
		if st.Always && i > s.r.Stage && !s.r.Stages[i].SkipGates {
			return true
		}
		for j := range st.Groups {
			if st.Groups[j].Always && s.groupLeft(i, j) {
				return true
			}
		}
	}
	return false
}

// groupLeft reports whether a group has not ended.
func (s *stepper) groupLeft(stage, group int) bool {
	run, g := &s.r.Stages[stage], &s.p.Stages[stage].Groups[group]
	if run.SkipGates || len(run.Groups) == 0 || g.Pause {
		return !run.SkipGates && (len(run.Groups) == 0 || run.Groups[group].Ended == 0)
	}
	return !s.membersEnded(g, &run.Groups[group])
}

// skipUnlessAlways skips what does not run always of a stage.
func (s *stepper) skipUnlessAlways(i int, reason string) {
	st := &s.p.Stages[i]
	always := func(g PlannedGroup) bool { return g.Always }
	switch {
	case st.Always && i > s.r.Stage:
	case !slices.ContainsFunc(st.Groups, always):
		s.skipStage(i, reason)
	default:
		for j := range st.Groups {
			if !st.Groups[j].Always {
				s.skipGroup(i, j, reason)
			}
		}
	}
}

// breakStage records that the current stage is where the run broke off.
func (s *stepper) breakStage(state State) {
	if _, run, ok := s.stage(); ok && run.Reached != 0 {
		run.State, run.Deadline = state, 0 // what runs always in it has timeouts of its own
		s.changed = true
	}
}

// failAlways takes in that something which runs always has failed: what is left of
// its stage is skipped, and the run goes on with the next.
func (s *stepper) failAlways(reason string) {
	s.skipStage(s.r.Stage, "not run: "+reason)
	s.breakStage(Failed)
}

// finishClosing ends a run whose last stage is done as it failed or was aborted
// before.
func (s *stepper) finishClosing(c Closing) {
	s.set(c.State, c.Reason)
	e := Event{Type: RunFailed, Message: c.Reason}
	if c.State == Aborted {
		e.Type = RunAborted
	}
	s.end(e)
}

// startClock lets a timeout begin once what it is of may start.
func (s *stepper) startClock(f *Flow, c *Clock) {
	if f.Timeout > 0 && c.Deadline == 0 && s.r.State == Running {
		c.Deadline, c.TimedOut = s.now.Add(f.Timeout), false
		s.changed = true
	}
}

// timeouts fails what has not ended in time.
func (s *stepper) timeouts() {
	st, run, ok := s.stage()
	if !ok || s.r.State != Running {
		return
	}
	if run.IsOver(s.now) {
		s.timeOut(&run.Clock, "stage "+st.Name, st.Timeout, nil)
	}
	for i := range run.Groups {
		if g := &st.Groups[i]; s.r.State == Running && run.Groups[i].IsOver(s.now) {
			s.timeOut(&run.Groups[i].Clock, "group "+g.Name+" of stage "+st.Name, g.Timeout, g)
		}
	}
}

// timeOut fails what is in flight of a group, or of all where that is nil, and the
// run with it.
func (s *stepper) timeOut(c *Clock, what string, after time.Duration, g *PlannedGroup) {
	c.Deadline, c.TimedOut = 0, true
	reason := what + " was not done within " + after.String()
	s.exceeded(reason)
	s.eachFlight(func(f *Flight) {
		if g == nil || g.Has(f.Pos) {
			s.leave(f, Failed, reason)
		}
	})
}

// halt remembers since when clocks stand still, where there may be any.
func (s *stepper) halt() {
	if s.r.Halted == 0 && s.p.Strategy.HasFlow() {
		s.r.Halted = s.now
	}
}

// goOn lets the clocks go on that stood still.
func (s *stepper) goOn() {
	if s.r.Halted == 0 {
		return
	}
	stood := s.now - s.r.Halted
	s.r.Halted = 0
	_, run, ok := s.stage()
	if !ok {
		return
	}
	run.PutOff(stood)
	for i := range run.Groups {
		run.Groups[i].PutOff(stood)
	}
}

// wakeForTimeouts adds when what has begun is over.
func (s *stepper) wakeForTimeouts(w *alarm) {
	_, run, ok := s.stage()
	if !ok {
		return
	}
	w.at(run.Deadline)
	for i := range run.Groups {
		w.at(run.Groups[i].Deadline)
	}
}
