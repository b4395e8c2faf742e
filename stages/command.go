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
	if s.r.Final(s.p) {
		return "the run has ended: it is " + string(s.r.State)
	}
	switch c.Verb {
	case Start:
		return s.start(c)
	case Stop:
		return s.stop(c)
	case Abort:
		s.abort(c)
	case Skip:
		return s.skip(c)
	case Decide:
		return s.decide(c)
	case Supersede:
		s.supersede(c)
	default:
		return "there is no command " + string(c.Verb)
	}
	return ""
}

func (s *stepper) start(c Command) string {
	switch s.r.State {
	case NotStarted, Pending:
		s.r.Hold = false
		s.changed = true
	case Stopped:
		s.resume(c)
	case Stopping:
		if s.r.Ending != Stopped {
			return "the run is ending: it will be " + string(s.r.Ending)
		}
		s.resume(c)
	case Failed:
		if s.blocked != "" {
			return "run " + s.blocked + " has the placement; start this one when that has ended"
		}
		s.r.Attempt++
		s.r.Ended = 0
		s.resume(c)
	default:
	}
	return ""
}

// resume lets a stopped, stopping or failed run go on with what is
// unprocessed.
func (s *stepper) resume(c Command) {
	retry := s.retries()
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
		s.retryFailed()
	}
}

func (s *stepper) stop(c Command) string {
	switch s.r.State {
	case NotStarted:
		return "the run has not started"
	case Pending:
		s.r.Hold = true
		s.set(Stopped, reasonBy("stopped", c))
		s.emit(Event{Type: RunStopped, Message: s.r.Reason})
	case Running:
		s.r.StopAt = s.now.Add(s.grace())
		s.wind(Stopped, reasonBy("stopped", c), c.By.Name)
	case Failed:
		return "the run has failed"
	default:
	}
	return ""
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
func (s *stepper) skip(c Command) string {
	reason := reasonBy("skipped", c)
	switch c.Scope {
	case SkipCluster:
		pos, ok := s.p.Position(c.Name)
		if !ok {
			return "the plan has no cluster " + c.Name
		}
		return s.skipCluster(pos, reason)
	case SkipGroup:
		return s.skipGroup(c.Name, reason)
	case SkipStage:
		return s.skipStage(c.Name, reason)
	case SkipAfterWait:
		return s.skipWait(c.Name)
	default:
		return "cannot skip a " + string(c.Scope)
	}
}

func (s *stepper) skipCluster(pos int, reason string) string {
	if f := s.flight(pos); f != nil {
		f.Drain = true
		s.changed = true
		if f.Phase == BackingOff {
			s.leave(f, Skipped, reason)
		}
		return ""
	}
	if i := s.yielded(pos); i >= 0 {
		s.unyield(i)
		s.record(skipped(pos, reason))
		return ""
	}
	if s.skipFailed(pos, reason) {
		return ""
	}
	if !s.ahead(pos) {
		return "cluster " + s.p.Clusters[pos].Name + " has ended already"
	}
	s.passBy(skipped(pos, reason))
	return ""
}

// skipFailed lets a run that a Start may let try its failed clusters again pass
// over one of them.
func (s *stepper) skipFailed(pos int, reason string) bool {
	e := exceptionAt(s.r.Exceptions, pos)
	stage, _ := s.p.StageOf(pos)
	again := s.p.Strategy.Profile == ClusterUpdate || s.p.Strategy.Profile == Workflow
	if e == nil || e.State != Failed || !again || stage != s.r.Stage {
		return false
	}
	s.unexcept(pos)
	_, g := s.groupOf(pos)
	g.Failed--
	s.record(skipped(pos, reason))
	return true
}

func skipped(pos int, reason string) Exception {
	return Exception{First: pos, Last: pos, State: Skipped, Reason: reason}
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

func (s *stepper) skipGroup(name, reason string) string {
	var found []PlannedGroup
	for i := range s.p.Stages {
		for _, g := range s.p.Stages[i].Groups {
			if g.Name != "" && (g.Name == name || s.p.Stages[i].Name+"/"+g.Name == name) {
				found = append(found, g)
			}
		}
	}
	switch len(found) {
	case 0:
		return "the plan has no group " + name
	case 1:
		s.skipRange(found[0].First, found[0].Len, reason)
		return ""
	default:
		return "several stages have a group " + name + ": name it <stage>/" + name
	}
}

func (s *stepper) skipStage(name, reason string) string {
	i := s.p.stageIndex(name)
	switch {
	case i < 0:
		return "the plan has no stage " + name
	case i < s.r.Stage:
		return "stage " + name + " has ended already"
	}
	for _, g := range s.p.Stages[i].Groups {
		s.skipRange(g.First, g.Len, reason)
	}
	if i == s.r.Stage {
		s.closeGates()
	}
	s.r.Stages[i].SkipGates = true
	s.changed = true
	return ""
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
	for pos := first; pos < first+n; pos++ {
		_ = s.skipCluster(pos, reason) // what it refuses has ended
	}
}

// skipWait lets the run pass the wait after a stage.
func (s *stepper) skipWait(stage string) string {
	i := s.p.stageIndex(stage)
	if i < 0 || i < s.r.Stage {
		return "there is no wait ahead after stage " + stage
	}
	s.r.Stages[i].SkipWait = true
	s.changed = true
	return ""
}

// gone takes in that a cluster has left the inventory.
func (s *stepper) gone(name string) {
	pos, ok := s.p.Position(name)
	if !ok || s.r.IsEnded() {
		return
	}
	e := Exception{First: pos, Last: pos, State: Skipped, Gone: true, Reason: "Removed: the cluster has left the inventory"}
	if f := s.flight(pos); f != nil {
		s.free(f)
		s.record(e)
	} else if i := s.yielded(pos); i >= 0 {
		s.unyield(i)
		s.record(e)
	} else if s.ahead(pos) {
		s.passBy(e)
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
