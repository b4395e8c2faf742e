package stages

import (
	"slices"
	"time"
)

// command carries out c, once.
func (s *stepper) command(c Command) {
	if slices.Contains(s.r.Seen, c.ID) {
		return
	}
	s.remember(c.ID)
	if why := s.obey(c); why != "" {
		s.emit(Event{Type: CommandRefused, Command: string(c.Verb), By: c.By.Name, Message: why})
	}
}

func (s *stepper) remember(id string) {
	s.r.Seen = append(s.r.Seen, id)
	if n := len(s.r.Seen) - maxSeen; n > 0 {
		s.r.Seen = slices.Delete(s.r.Seen, 0, n)
	}
	s.changed = true
}

// obey carries out c and returns why it does not, or "".
func (s *stepper) obey(c Command) string {
	if why := s.refusal(&c); why != "" {
		return why
	}
	switch c.Verb {
	case Start:
		s.start(c)
	case Stop:
		s.stop(c)
	case Abort:
		s.abort(c)
	case Skip:
		s.skip(c)
	case Decide:
		return s.decide(c)
	case Supersede:
		s.supersede(c)
	case Retry:
		s.retry(c)
	case BypassWindows:
		return s.bypass(c)
	case CompleteGate:
		s.completeGate(c)
	default:
	}
	return ""
}

func (s *stepper) start(c Command) {
	switch s.r.State {
	case NotStarted, Pending:
		s.r.Hold = false
		s.changed = true
	case Stopped, Stopping:
		s.resume(c)
	case Failed:
		s.r.Attempt++
		s.r.Ended = 0
		s.resume(c)
	default:
	}
}

// resume lets a stopped, stopping or failed run go on with what is
// unprocessed.
func (s *stepper) resume(c Command) {
	retry := c.Verb == Start && s.retries()
	s.r.Ending, s.r.StopAt, s.r.Hold = "", 0, false
	if s.r.Started == 0 {
		s.set(NotStarted, "")
		return
	}
	parked := s.r.State == Stopped
	s.eachFlight(func(f *Flight) {
		f.Started = s.now
		if parked {
			s.doubt(f)
		}
	})
	for i := range s.r.Waiting {
		s.r.Waiting[i].Started, s.r.Waiting[i].Spent = s.now, 0
	}
	s.unendStage()
	s.set(Running, "")
	s.emit(Event{Type: RunResumed, By: c.By.Name, Attempt: s.r.Attempt})
	if retry {
		s.lineUp(OnlyFailed)
	}
}

func (s *stepper) stop(c Command) {
	switch s.r.State {
	case Pending:
		s.r.Hold = true
		s.set(Stopped, reasonBy("stopped", c))
		s.emit(Event{Type: RunStopped, Message: s.r.Reason})
	case Running:
		s.r.StopAt = s.now.Add(s.grace())
		s.wind(Stopped, reasonBy("stopped", c), c.By.Name)
	default:
	}
}

func (s *stepper) grace() time.Duration {
	if d := s.deadline(); d > 0 {
		return d
	}
	return stopGrace
}

// wind lets what is in flight finish and starts nothing more.
func (s *stepper) wind(ending State, reason, by string) {
	parked := s.r.State != Running && s.r.State != Stopping
	s.r.Ending = ending
	s.set(Stopping, reason)
	s.emit(Event{Type: RunStopping, By: by, Message: s.r.Reason})
	s.eachFlight(func(f *Flight) {
		if parked || f.Phase == BackingOff {
			s.ground(f)
		}
	})
}

// ground takes a cluster that is between attempts out of flight.
func (s *stepper) ground(f *Flight) {
	switch {
	case f.Drain, s.r.Ending == Stopped, s.r.Ending == Superseded:
		f.Attempt++
		s.reached(f)
		s.yield(f, 0, true)
	default:
		s.leave(f, Failed, "not tried again, because the run ends: "+f.Message)
	}
}

func (s *stepper) abort(c Command) {
	s.set(Aborted, reasonBy("aborted", c))
	s.eachFlight(func(f *Flight) {
		s.leave(f, Failed, "the run was aborted while the cluster was in flight")
	})
	s.dropWaiting("the run was aborted")
	s.closeGates()
	s.end(Event{Type: RunAborted, By: c.By.Name, Message: s.r.Reason})
}

// supersede makes way for another run: an apply in flight may end, everything
// else is given up at once.
func (s *stepper) supersede(c Command) {
	if s.r.Ending == Superseded {
		return
	}
	reason := "superseded by run " + c.Message
	s.r.StopAt = s.now.Add(drainGrace)
	s.wind(Superseded, reason, c.By.Name)
	s.eachFlight(func(f *Flight) {
		if f.Phase != Applying {
			s.leave(f, Skipped, reason+" before the cluster was proven healthy")
		}
	})
	s.dropWaiting(reason)
}

// skip passes over a cluster, a group, a stage or a wait.
func (s *stepper) skip(c Command) {
	reason := reasonBy("skipped", c)
	switch c.Scope {
	case SkipCluster:
		if pos, ok := s.p.Position(c.Name); ok {
			s.skipCluster(pos, reason)
		}
	case SkipGroup:
		stage, group, _ := s.p.group(c.Name)
		s.skipGroup(stage, group, reason)
	case SkipStage:
		s.skipStage(s.p.stageIndex(c.Name), reason)
	default:
		s.r.Stages[s.p.stageIndex(c.Name)].SkipWait = true
		s.changed = true
	}
}

// skipCluster skips a cluster; one that has ended it leaves alone.
func (s *stepper) skipCluster(pos int, reason string) {
	if f := s.flight(pos); f != nil {
		f.Drain = true
		s.changed = true
		if f.Phase == BackingOff {
			s.leave(f, Skipped, reason)
		}
		return
	}
	if i := s.yielded(pos); i >= 0 {
		y := s.r.Waiting[i]
		s.unyield(i)
		s.record(y.skipped(reason))
		return
	}
	if s.unpass(pos) {
		s.record(skipped(pos, reason))
		return
	}
	if s.forgivable(pos) {
		failed := *exceptionAt(s.r.Exceptions, pos)
		s.unexcept(pos)
		_, g := s.groupOf(pos)
		g.Failed--
		e := skipped(pos, reason)
		e.Attempts, e.Sent = failed.Attempts, true
		s.record(e)
		return
	}
	if s.ahead(pos) {
		s.passBy(skipped(pos, reason))
	}
}

// forgivable tells that the cluster at pos has failed, and that the run may try
// it again: it may be passed over instead.
func (s *stepper) forgivable(pos int) bool {
	e := exceptionAt(s.r.Exceptions, pos)
	stage, _ := s.p.StageOf(pos)
	again := s.p.Strategy.Profile == ClusterUpdate || s.p.Strategy.Profile == Workflow
	return e != nil && e.State == Failed && again && stage == s.r.Stage
}

func skipped(pos int, reason string) Exception {
	return Exception{First: pos, Last: pos, State: Skipped, Reason: reason}
}

// skipped is the exception of a cluster that yielded its slot. It was in flight
// with its next attempt where it could not be reached then.
func (y *Yielded) skipped(reason string) Exception {
	e := skipped(y.Pos, reason)
	e.Attempts, e.Sent = y.Attempt-1, y.Sent
	if y.Tries > 0 {
		e.Attempts++
	}
	return e
}

// passBy records that clusters which the run has not come to are skipped.
func (s *stepper) passBy(e Exception) {
	n := s.except(e)
	if n == 0 {
		return
	}
	ev := Event{Type: ClusterSkipped, Message: cut(e.Reason)}
	if e.First == e.Last {
		s.emitCluster(e.First, ev)
		return
	}
	stage, group := s.p.StageOf(e.First)
	ev.Stage, ev.Group = s.p.Stages[stage].Name, s.p.Stages[stage].Groups[group].Name
	ev.Count = n
	s.emit(ev)
}

// ahead tells that the run has not come to the cluster at pos and is not to
// pass over it either.
func (s *stepper) ahead(pos int) bool {
	return exceptionAt(s.r.Exceptions, pos) == nil && s.beyond(pos)
}

// beyond tells that pos is after where the run has come to in its group.
func (s *stepper) beyond(pos int) bool {
	stage, group := s.p.StageOf(pos)
	if stage != s.r.Stage {
		return stage > s.r.Stage
	}
	groups := s.r.Stages[stage].Groups
	return len(groups) == 0 || pos >= s.p.Stages[stage].Groups[group].First+groups[group].Next
}

// skipGroup skips what has not ended of a group, and its gates.
func (s *stepper) skipGroup(stage, group int, reason string) {
	g := &s.p.Stages[stage].Groups[group]
	s.skipRange(g.First, g.Len, reason)
	run := &s.r.Stages[stage]
	if stage != s.r.Stage || len(run.Groups) == 0 || run.Groups[group].Ended != 0 {
		return
	}
	gr := &run.Groups[group]
	gr.SkipGates = true
	s.closeHeld(heldGroup(run, g, gr))
	s.changed = true
}

// skipStage skips what has not ended of a stage, and its gates.
func (s *stepper) skipStage(i int, reason string) {
	for _, g := range s.p.Stages[i].Groups {
		s.skipRange(g.First, g.Len, reason)
	}
	if i == s.r.Stage {
		s.closeGates()
	}
	s.r.Stages[i].SkipGates = true
	s.changed = true
}

// skipRange skips what has not ended of a group, and what has failed in it and
// might be tried again.
func (s *stepper) skipRange(first, n int, reason string) {
	if n == 0 {
		return
	}
	if s.beyond(first) {
		s.passBy(Exception{First: first, Last: first + n - 1, State: Skipped, Reason: reason})
		return
	}
	s.skipUnstarted(first, reason)
	for pos := first; pos < first+n; pos++ {
		s.skipCluster(pos, reason)
	}
}

// skipUnstarted skips those of the group that begins at first which have not
// started, with one event, where they are many.
func (s *stepper) skipUnstarted(first int, reason string) {
	if stage, _ := s.p.StageOf(first); stage != s.r.Stage {
		return
	}
	g, gr := s.groupOf(first)
	n := g.Len - gr.Next
	for _, r := range gr.Passed {
		n += r.Last - r.First + 1
	}
	if n <= maxSingleEvents {
		return
	}
	passed, e := gr.Passed, skipped(first, reason)
	gr.Passed, n = nil, s.except(e.over(first+gr.Next, first+g.Len-1))
	for _, r := range passed {
		k := s.except(e.over(r.First, r.Last))
		gr.Skipped += k
		n += k
	}
	if n > 0 {
		s.emitStage(Event{Type: ClusterSkipped, Group: g.Name, Count: n, Message: cut(reason)})
	}
}

// hasLeft is why a cluster is skipped that has left the inventory.
const hasLeft = "Removed: the cluster has left the inventory"

// gone takes in that a cluster has left the inventory.
func (s *stepper) gone(name string) {
	pos, ok := s.p.Position(name)
	if !ok || s.r.IsEnded() {
		return
	}
	e := Exception{First: pos, Last: pos, State: Skipped, Gone: true, Reason: hasLeft}
	if f := s.flight(pos); f != nil {
		s.free(f)
		s.record(e)
	} else if i := s.yielded(pos); i >= 0 {
		s.unyield(i)
		s.record(e)
	} else if s.unpass(pos) {
		s.record(e)
	} else if s.ahead(pos) {
		s.passBy(e)
	} else if x := exceptionAt(s.r.Exceptions, pos); x != nil && !x.Gone {
		e = x.over(pos, pos)
		e.Gone = true
		s.unexcept(pos)
		s.r.Exceptions = mergeExceptions(append(s.r.Exceptions, e))
	}
}

func reasonBy(what string, c Command) string {
	if c.By.Name != "" {
		what += " by " + c.By.Name
	}
	if c.Message != "" {
		what += ": " + c.Message
	}
	return what
}
