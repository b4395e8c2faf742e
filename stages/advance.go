package stages

import "github.com/slipway-dev/slipway/approval"

// advance moves the run on by one transition and reports whether another may
// follow.
func (s *stepper) advance() bool {
	switch s.r.State {
	case NotStarted, Pending:
		return s.begin()
	case Running:
		return s.runStage()
	case Stopping:
		s.countEnded()
		s.endStopping()
		return s.r.State != Stopping
	case Stopped:
		s.countEnded()
	case Failed:
		if !s.r.Final(s.p) {
			s.countEnded()
		}
	default:
	}
	return false
}

// countEnded records when the last cluster of the stage ended while the run is
// stopped, or has failed and may be started again: what waits for that is not to
// begin with the resume.
func (s *stepper) countEnded() {
	st, run, ok := s.stage()
	if !ok || run.Started == 0 || run.Done != 0 {
		return
	}
	for i := range st.Groups {
		s.passSkipped(&st.Groups[i], &run.Groups[i])
	}
	if s.groupsEnded(st, run, false) {
		run.Done = s.now
		s.changed = true
	}
}

// begin starts the run, unless it is held or waits for another one.
func (s *stepper) begin() bool {
	if s.r.Hold {
		return false
	}
	if s.blocked != "" {
		if reason := waitsFor + s.blocked; s.r.Reason != reason {
			s.set(Pending, reason)
			s.emit(Event{Type: RunQueued, Message: s.blocked})
		}
		return false
	}
	s.set(Running, "")
	s.r.Started, s.r.Attempt = s.now, 1
	s.emit(Event{Type: RunStarted, Index: &s.p.Index, Digest: s.p.Digest})
	return true
}

// runStage does what the current stage allows.
func (s *stepper) runStage() bool {
	st, run, ok := s.stage()
	if !ok {
		s.finish()
		return false
	}
	if run.Reached == 0 {
		run.Reached, run.State = s.now, Pending
		run.Groups = make([]GroupRun, len(st.Groups))
		for i := range st.Groups {
			if cells := s.cellsOf(&st.Groups[i]); cells != nil {
				run.Groups[i].Cells = make([]int, len(cells))
			}
		}
		s.changed = true
	}
	if run.Started == 0 {
		if s.nobodyLeft(st) {
			return s.passOver(st, run)
		}
		if st.Pause {
			s.startClock(&st.Flow, &run.Clock)
		}
		if !s.gatesPassed(heldStage(st, run), approval.Before) {
			return false
		}
		run.Started, run.State = s.now, Running
		s.emitStage(Event{Type: StageStarted, Count: st.Size()})
	}
	if !st.Pause && run.Done == 0 && !run.IsBroken() {
		s.startClock(&st.Flow, &run.Clock)
	}
	s.reachGroups(st, run)
	if s.checkUsedUp(st, run) {
		return true
	}
	s.fill(st, run)
	open := run.OpenGroups()
	if !s.groupsEnded(st, run, true) {
		return st.HasDependencies() && run.OpenGroups() < open
	}
	return s.leaveStage(st, run)
}

// nobodyLeft reports whether every cluster of the stage is skipped already.
func (s *stepper) nobodyLeft(st *PlannedStage) bool {
	left := st.Size()
	switch {
	case st.Pauses():
		return s.r.Stages[s.r.Stage].SkipGates
	case left == 0:
		return true
	}
	first := st.Groups[0].First
	last := first + left - 1
	for _, e := range s.r.Exceptions {
		if n := min(e.Last, last) - max(e.First, first) + 1; n > 0 {
			left -= n
		}
	}
	return left == 0
}

// passOver leaves a stage in which nothing is to be done, without its gates.
func (s *stepper) passOver(st *PlannedStage, run *StageRun) bool {
	for i := range st.Groups {
		s.passSkipped(&st.Groups[i], &run.Groups[i])
	}
	run.Done = s.now
	return s.leaveSkipped(run)
}

// leaveSkipped goes on from a stage in which nothing was updated, without its gates.
func (s *stepper) leaveSkipped(run *StageRun) bool {
	s.closeGates()
	run.Ended, run.Deadline = s.now, 0
	if !run.IsBroken() {
		run.State = Skipped
		s.emitStage(Event{Type: StageSkipped})
	}
	s.nextStage()
	return true
}

// fill starts clusters while every cap allows, one from each group in turn.
func (s *stepper) fill(st *PlannedStage, run *StageRun) {
	room, own := s.room(st, run)
	room = min(room, s.spare())
	for more := true; more; {
		more = false
		for i := range st.Groups {
			g, gr := &st.Groups[i], &run.Groups[i]
			s.passSkipped(g, gr)
			if room > 0 && own[i] > 0 && gr.Admits(g, run) && s.startNext(g, gr) {
				own[i]--
				room--
				more = true
			}
		}
	}
}

func (s *stepper) clustersEnded(st *PlannedStage, run *StageRun) bool {
	for i := range st.Groups {
		if run.Groups[i].Next < st.Groups[i].Len || len(run.Groups[i].Passed) > 0 {
			return false
		}
	}
	return len(s.r.Waiting) == 0 && len(s.r.Flights) == 0
}

// leaveStage goes on to the next stage once the after-stage gates have passed.
// A stage whose clusters were all skipped does not wait.
func (s *stepper) leaveStage(st *PlannedStage, run *StageRun) bool {
	if run.Done == 0 {
		run.Done, run.Deadline = s.now, 0
		s.changed = true
	}
	completed, failed := run.Counts()
	switch {
	case completed+failed == 0 && (!st.Pauses() || run.SkipGates), run.IsBroken():
		return s.leaveSkipped(run)
	case !s.gatesPassed(heldStage(st, run), approval.After):
		return false
	}
	run.State, run.Ended = Completed, s.now
	s.emitStage(Event{Type: StageCompleted, Count: completed})
	s.nextStage()
	return true
}

func (s *stepper) nextStage() {
	s.tidyStage()
	s.r.Stage++
	s.domains = nil
	s.ownStage()
	s.changed = true
}

func (s *stepper) finish() {
	if c := s.r.Closing; c != nil {
		s.finishClosing(*c)
		return
	}
	total := 0
	for i := range s.r.Stages {
		if !s.p.Stages[i].Remove {
			completed, _ := s.r.Stages[i].Counts()
			total += completed
		}
	}
	s.set(Completed, "")
	s.end(Event{Type: RunCompleted, Count: total})
}

// end records the end of the run, and of the stage that it was in.
func (s *stepper) end(e Event) {
	if _, st, ok := s.stage(); ok && st.Reached != 0 {
		if st.State = s.r.State; st.State == Superseded {
			st.State = Stopped
		}
	}
	s.r.Ended, s.r.StopAt, s.r.Ending = s.now, 0, ""
	s.emit(e)
}

// unendStage takes back what end said of the stage.
func (s *stepper) unendStage() {
	_, st, ok := s.stage()
	switch {
	case !ok || st.Reached == 0:
	case s.r.Closing != nil && st.IsBroken():
	case st.Started == 0:
		st.State = Pending
	default:
		st.State = Running
	}
}

// endStopping ends a run that is Stopping, once nothing is in flight or it has
// been waited for long enough.
func (s *stepper) endStopping() {
	if s.inFlight() > 0 && (s.r.StopAt == 0 || s.now < s.r.StopAt) {
		return
	}
	reason := s.r.Reason
	switch ending := s.r.Ending; ending {
	case Failed:
		s.eachFlight(func(f *Flight) { s.leave(f, Failed, "still in flight when the run failed") })
		if s.closes(Failed, reason) {
			return
		}
		s.set(Failed, reason)
		if s.r.Final(s.p) {
			s.dropWaiting(reason)
			s.closeGates()
		}
		s.end(Event{Type: RunFailed, Message: reason})
	case Superseded:
		s.eachFlight(func(f *Flight) { s.leave(f, Skipped, reason) })
		s.dropWaiting(reason)
		s.closeGates()
		s.set(Superseded, reason)
		s.end(Event{Type: RunSuperseded, Message: reason})
	default:
		s.r.StopAt, s.r.Ending = 0, ""
		s.set(Stopped, reason)
		s.emit(Event{Type: RunStopped, Message: reason})
	}
}
