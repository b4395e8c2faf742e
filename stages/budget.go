package stages

import (
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/stages/runstate"
)

// room returns how many clusters the stage may start, and how many each of its
// groups. A strict budget leaves room for as many as may still fail, with those
// in flight.
func (s *stepper) room(st *PlannedStage, run *StageRun) (int, []int) {
	_, failed := run.Counts()
	room, own := admitted(st.MaxConcurrency, st.MaxFailures, failed, st.Strict), make([]int, len(st.Groups))
	for i := range st.Groups {
		g := &st.Groups[i]
		own[i] = admitted(g.MaxConcurrency, g.MaxFailures, run.Groups[i].Failed, g.Strict)
	}
	group := 0
	for i := range s.r.Flights {
		f := &s.r.Flights[i]
		if f.Attempt == 0 {
			continue
		}
		room--
		if len(st.Groups) > 1 {
			_, group = s.p.StageOf(f.Pos)
		}
		own[group]--
	}
	return room, own
}

// admitted is how many clusters may be in flight at once under a cap and a
// budget.
func admitted(most, budget, failed int, strict bool) int {
	if strict {
		return min(runstate.Limit(most), budget-failed)
	}
	return runstate.Limit(most)
}

// checkUsedUp ends the run when a strict budget is used up: no cluster that is
// left may ever start. It reports whether it did.
func (s *stepper) checkUsedUp(st *PlannedStage, run *StageRun) bool {
	for i := range st.Groups {
		s.passSkipped(&st.Groups[i], &run.Groups[i])
	}
	_, failed := run.Counts()
	if st.Strict && failed >= st.MaxFailures && s.inFlight() == 0 && !s.clustersEnded(st, run) {
		s.exceeded(usedUp("stage "+st.Name, failed))
		return true
	}
	for i := range st.Groups {
		g, gr := &st.Groups[i], &run.Groups[i]
		if g.Strict && gr.Failed >= g.MaxFailures && !s.flying(g) && !s.membersEnded(g, gr) {
			s.exceeded(usedUp("group "+g.Name+" of stage "+st.Name, gr.Failed))
			return true
		}
	}
	return false
}

// flying reports whether a cluster of the group is in flight.
func (s *stepper) flying(g *PlannedGroup) bool {
	return slices.ContainsFunc(s.r.Flights, func(f Flight) bool { return f.Attempt != 0 && g.Has(f.Pos) })
}

// checkBudget ends the run when more clusters have failed than it may. A stop
// that is under way does not hide it, unless the run tries the clusters again
// when it is resumed.
func (s *stepper) checkBudget() {
	stopping := s.r.State == Stopping && s.r.Ending == Stopped && !s.p.Strategy.Suspends()
	if s.r.State != Running && !stopping {
		return
	}
	if over := s.overBudget(); over != "" {
		s.exceeded(over)
	}
}

// overBudget says which budget of the current stage is exceeded, or "".
func (s *stepper) overBudget() string {
	st, run, ok := s.stage()
	if !ok || len(run.Groups) == 0 {
		return ""
	}
	if _, failed := run.Counts(); st.MaxFailures >= 0 && failed > st.MaxFailures {
		return overBudget("stage "+st.Name, failed, st.MaxFailures)
	}
	for i := range st.Groups {
		if g, n := &st.Groups[i], run.Groups[i].Failed; g.MaxFailures >= 0 && n > g.MaxFailures {
			return overBudget("group "+g.Name+" of stage "+st.Name, n, g.MaxFailures)
		}
	}
	return ""
}

// exceeded ends the run as the profile says, for what its budget says.
func (s *stepper) exceeded(reason string) {
	if s.r.Closing != nil {
		s.fail(reason)
		return
	}
	undone := s.undo(Undo{Cause: BudgetExceeded, Message: reason})
	if s.p.Strategy.Suspends() && !undone {
		s.r.StopAt = s.now.Add(s.grace())
		s.wind(Stopped, reason, "")
		return
	}
	s.fail(reason)
}

// fail ends the run as failed once nothing is in flight. A stop that is under
// way is not given more time.
func (s *stepper) fail(reason string) {
	if s.r.Closing != nil {
		s.failAlways(reason)
		return
	}
	if s.r.State != Stopping {
		s.r.StopAt = s.now.Add(s.grace())
	}
	s.wind(Failed, reason, "")
}

func overBudget(where string, failed, allowed int) string {
	return fmt.Sprintf("%d clusters of %s have failed, and %d may", failed, where, allowed)
}

func usedUp(where string, failed int) string {
	return fmt.Sprintf("%d clusters of %s have failed, which is all that may: no other can be started, and not all have been", failed, where)
}
