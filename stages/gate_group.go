package stages

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// reachGroups lets the run come to the groups of a stage that has started, and
// opens what is before them. A group of which all clusters are skipped does not
// wait.
func (s *stepper) reachGroups(st *PlannedStage, run *StageRun) {
	for i := range st.Groups {
		g, gr := &st.Groups[i], &run.Groups[i]
		if !g.IsTracked(st) || gr.Ended != 0 || !runstate.IsNext(g, run) {
			continue
		}
		s.passSkipped(g, gr)
		if gr.Reached == 0 {
			gr.Reached = s.now
			s.changed = true
		}
		if g.Pause {
			s.startClock(&g.Flow, &gr.Clock)
		}
		if (g.Pause || !s.membersEnded(g, gr)) && s.gatesPassed(heldGroup(run, g, gr), approval.Before) {
			s.startClock(&g.Flow, &gr.Clock)
		}
	}
}

// groupsEnded reports whether every group of the stage has ended; open says
// whether gates may be opened and waited for.
func (s *stepper) groupsEnded(st *PlannedStage, run *StageRun, open bool) bool {
	ended := s.clustersEnded(st, run)
	for i := range st.Groups {
		if st.Groups[i].IsTracked(st) && !s.groupEnded(run, &st.Groups[i], &run.Groups[i], open) {
			ended = false
		}
	}
	return ended
}

// groupEnded ends a group with gates whose clusters have ended, once those
// after it have passed.
func (s *stepper) groupEnded(run *StageRun, g *PlannedGroup, gr *GroupRun, open bool) bool {
	switch {
	case gr.Ended != 0:
		return true
	case !s.membersEnded(g, gr) || !gr.PausePassed(g, run) || !runstate.IsNext(g, run):
		return false
	case gr.Done == 0:
		gr.Done = s.now
		s.changed = true
	}
	h := heldGroup(run, g, gr)
	if gr.Completed+gr.Failed == 0 && !g.Pause {
		s.closeHeld(h)
	} else if !open && runstate.WaitsAfter(g, gr) || open && !s.gatesPassed(h, approval.After) {
		return false
	}
	gr.Ended, gr.Deadline = s.now, 0
	s.changed = true
	return true
}

// membersEnded reports whether every cluster of the group has ended.
func (s *stepper) membersEnded(g *PlannedGroup, gr *GroupRun) bool {
	return gr.Next >= g.Len && len(gr.Passed) == 0 &&
		!slices.ContainsFunc(s.r.Flights, func(f Flight) bool { return f.Attempt != 0 && g.Has(f.Pos) }) &&
		!slices.ContainsFunc(s.r.Waiting, func(y Yielded) bool { return g.Has(y.Pos) })
}

// reopen takes back that the clusters of the stage, and of the group, of pos
// have ended. What was passed after them stays passed; what is still open
// begins again once they have ended.
func (s *stepper) reopen(pos int) {
	_, run, _ := s.stage()
	run.Done = 0
	reopenGates(run.Gates)
	run.Gates = slices.DeleteFunc(run.Gates, unbegun)
	_, gr := s.groupOf(pos)
	gr.Done, gr.Ended, gr.SkipGates = 0, 0, false
	unskipGates(gr.Gates)
	reopenGates(gr.Gates)
	gr.Gates = slices.DeleteFunc(gr.Gates, unbegun)
	s.changed = true
}

// unbegun reports whether a wait has to begin again, from its start.
func unbegun(g Gate) bool {
	return g.When == approval.After && g.Type == TimedWait && g.State == Pending
}

// unskipGates takes back that the gates of a group were skipped with its
// clusters: who is to be started again waits at them. A request is made again.
func unskipGates(gates []Gate) {
	for i := range gates {
		switch g := &gates[i]; {
		case g.State != Skipped:
		case g.Type == Approval:
			g.State, g.Ended = Failed, 0
		default:
			g.State, g.Ended = Pending, 0
		}
	}
}

// reopenGates takes back the requests that are open after a stage or a group.
func reopenGates(gates []Gate) {
	for i := range gates {
		if g := &gates[i]; g.When == approval.After && g.Type == Approval && g.State == Pending {
			g.State = Failed
		}
	}
}
