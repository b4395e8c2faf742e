package stages

import (
	"cmp"
	"slices"
)

// retry lines what has failed or was skipped in the current stage up again, and
// lets a run go on that has stopped or failed.
func (s *stepper) retry(c Command) {
	switch s.r.State {
	case Stopped:
		s.resume(c)
	case Failed:
		s.r.Attempt++
		s.r.Ended = 0
		s.resume(c)
	default:
	}
	n := s.lineUp(c.Only)
	s.emit(Event{Type: RunRetried, By: c.By.Name, Count: n, Message: c.Only.Words()})
}

// notRetried says why there is nothing to retry, or "".
func (s *stepper) notRetried(only Only) string {
	st, run, ok := s.stage()
	switch {
	case s.r.Closing != nil:
		return "the run is " + string(s.r.Closing.State) + " but for what runs always: start another one"
	case only != "" && only != OnlyFailed && only != OnlySkipped:
		return "cannot retry only what is " + string(only) + ": it is " + string(OnlyFailed) + ", " + string(OnlySkipped) + " or empty"
	case !ok:
		return "all stages are done: a catch-up run takes the clusters that failed or were skipped"
	case run.SkipGates:
		return "stage " + st.Name + " was skipped as a whole: a catch-up run takes its clusters"
	}
	if again, _ := s.split(only); !slices.ContainsFunc(again, func(e Exception) bool { return !e.Gone }) {
		return "stage " + st.Name + " has no " + only.Words() + " to be tried again: a catch-up run takes those of other stages"
	}
	if over := s.overBudget(); over != "" && only == OnlySkipped {
		return over + ": retry those too, or skip them"
	}
	return ""
}

// split divides the exceptions into those of the current stage that only is
// about, each in one group, and the others. Those that have left are among them
// where they have failed: they are not tried again, and do not count any more.
func (s *stepper) split(only Only) (again, rest []Exception) {
	st := &s.p.Stages[s.r.Stage]
	first, last := st.Groups[0].First, st.End()-1
	for _, e := range s.r.Exceptions {
		if e.Last < first || e.First > last || e.Gone && e.State == Skipped || only != "" && string(only) != string(e.State) {
			rest = append(rest, e)
			continue
		}
		if e.First < first {
			rest = append(rest, e.Spanning(e.First, first-1))
		}
		for i := range st.Groups {
			g := &st.Groups[i]
			if a, b := max(e.First, g.First), min(e.Last, g.First+g.Len-1); a <= b {
				again = append(again, e.Spanning(a, b))
			}
		}
		if e.Last > last {
			rest = append(rest, e.Spanning(last+1, e.Last))
		}
	}
	return again, rest
}

// lineUp lines the failed or skipped clusters of the current stage up again, as
// only says, and returns how many those are.
func (s *stepper) lineUp(only Only) (n int) {
	_, run, ok := s.stage()
	if !ok {
		return 0
	}
	again, rest := s.split(only)
	if len(again) == 0 {
		return 0
	}
	s.r.Exceptions = rest
	s.changed = true
	for _, e := range again {
		if e.Gone {
			_, gr := s.groupOf(e.First)
			s.giveUpGone(gr, e)
			continue
		}
		n += e.Last - e.First + 1
		if len(run.Groups) == 0 {
			continue
		}
		_, gr := s.groupOf(e.First)
		// The run comes by itself to those that it has not come to.
		begun := func(pos int) bool { return !s.beyond(pos) }
		eachRun(e.First, e.Last, begun, func(first, last int) { s.putBack(gr, e.Spanning(first, last)) })
		s.reopen(e.First)
	}
	return n
}

// giveUpGone turns clusters that have failed and then left into ones that are
// skipped: their failure does not count any more.
func (s *stepper) giveUpGone(gr *GroupRun, e Exception) {
	n := e.Last - e.First + 1
	gr.Failed -= n
	gr.Skipped += n
	e.State, e.Sent, e.Reason = Skipped, true, hasLeft
	s.except(e)
	for pos := e.First; pos <= e.Last; pos++ {
		s.emitCluster(pos, Event{Type: ClusterSkipped, Message: hasLeft})
	}
}

// putBack makes clusters that have ended ones that are to be started.
func (s *stepper) putBack(gr *GroupRun, e Exception) {
	n := e.Last - e.First + 1
	if e.State == Failed {
		gr.Failed -= n
	} else {
		gr.Skipped -= n
	}
	if e.State == Skipped && e.Attempts == 0 {
		r := Passed{First: e.First, Last: e.Last, NotYet: s.now}
		i, _ := slices.BinarySearchFunc(gr.Passed, r.First, func(p Passed, pos int) int { return cmp.Compare(p.First, pos) })
		if i == 0 || !gr.Passed[i-1].Join(r, s.now) {
			gr.Passed = slices.Insert(gr.Passed, i, r)
		}
		return
	}
	// Which of those that failed were changed is not kept, so each may have been.
	y := Yielded{Attempt: e.Attempts + 1, Sent: e.Sent || e.State == Failed}
	if st, _, _ := s.stage(); st.Remove {
		y.Started = s.now
	}
	for y.Pos = e.First; y.Pos <= e.Last; y.Pos++ {
		s.r.Waiting = append(s.r.Waiting, y)
	}
}

// retries reports whether a Start would try the failed clusters again.
func (s *stepper) retries() bool {
	if s.r.Closing != nil {
		return false
	}
	switch s.r.State {
	case Failed:
		return true
	case Stopped, Stopping:
		return s.p.Strategy.Suspends()
	default:
		return false
	}
}
