package stages

import "github.com/slipway-dev/slipway/stages/runstate"

// skip passes over a cluster, a group, a stage or a wait.
func (s *stepper) skip(c Command) {
	reason := reasonBy("skipped", c)
	switch c.Scope {
	case SkipCluster:
		if pos, ok := s.p.Position(c.Name); ok {
			s.skipCluster(pos, reason)
		}
	case SkipGroup:
		stage, group, _ := groupOf(s.p, c.Name)
		s.skipGroup(stage, group, reason)
	case SkipStage:
		s.skipStage(s.p.StageIndex(c.Name), reason)
	default:
		s.r.Stages[s.p.StageIndex(c.Name)].SkipWait = true
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
		s.record(skippedYielded(&y, reason))
		return
	}
	if s.unpass(pos) {
		s.record(skipped(pos, reason))
		return
	}
	if s.forgivable(pos) {
		failed := *runstate.ExceptionAt(s.r.Exceptions, pos)
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

// forgivable reports whether the cluster at pos has failed, and that the run may try
// it again: it may be passed over instead.
func (s *stepper) forgivable(pos int) bool {
	e := runstate.ExceptionAt(s.r.Exceptions, pos)
	stage, _ := s.p.StageOf(pos)
	again := s.r.Closing == nil && (s.p.Strategy.Profile == ClusterUpdate || s.p.Strategy.Suspends())
	return e != nil && e.State == Failed && again && stage == s.r.Stage
}

func skipped(pos int, reason string) Exception {
	return Exception{First: pos, Last: pos, State: Skipped, Reason: reason}
}

// skipped is the exception of a cluster that yielded its slot. It was in flight
// with its next attempt where it could not be reached then.
func skippedYielded(y *Yielded, reason string) Exception {
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

// ahead reports whether the run has not come to the cluster at pos and is not to
// pass over it either.
func (s *stepper) ahead(pos int) bool {
	return runstate.ExceptionAt(s.r.Exceptions, pos) == nil && s.beyond(pos)
}

// beyond reports whether pos is after where the run has come to in its group.
func (s *stepper) beyond(pos int) bool {
	if stage, _ := s.p.StageOf(pos); stage != s.r.Stage {
		return stage > s.r.Stage
	}
	return !s.r.HasComeTo(s.p, pos)
}

// isAhead reports whether the run has come to no cluster of the group of pos.
func (s *stepper) isAhead(pos int) bool {
	stage, group := s.p.StageOf(pos)
	if stage != s.r.Stage {
		return stage > s.r.Stage
	}
	groups := s.r.Stages[stage].Groups
	return len(groups) == 0 || groups[group].Next == 0
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
	if s.isAhead(first) {
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
	gr.Passed, n = nil, 0
	eachRun(first, first+g.Len-1, s.beyond, func(first, last int) { n += s.except(e.Spanning(first, last)) })
	for _, r := range passed {
		k := s.except(e.Spanning(r.First, r.Last))
		gr.Skipped += k
		n += k
	}
	if n > 0 {
		s.emitStage(Event{Type: ClusterSkipped, Group: g.Name, Count: n, Message: cut(reason)})
	}
}
