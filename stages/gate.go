package stages

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// held is what has gates: the current stage, or one of its groups.
type held struct {
	// group is the group's name, empty for the whole stage.
	group   string
	planned []PlannedGate
	gates   *[]Gate
	// reached and ended are when the gates before it and those after it open.
	reached, ended Instant
	// skip reports whether no gate holds it, skipWait that its wait after it does not.
	skip, skipWait bool
	// pause reports whether it has no clusters: its wait can be ended early.
	pause bool
}

func heldStage(st *PlannedStage, run *StageRun) held {
	return held{
		planned: st.Gates, gates: &run.Gates, reached: run.Reached, ended: run.Done,
		skip: run.SkipGates, skipWait: run.SkipWait, pause: st.Pause,
	}
}

func heldGroup(run *StageRun, g *PlannedGroup, gr *GroupRun) held {
	return held{
		group: g.Name, planned: g.Gates, gates: &gr.Gates, reached: gr.Reached, ended: gr.Done,
		skip: run.SkipGates || gr.SkipGates, pause: g.Pause,
	}
}

// eachHeld yields the current stage, then its groups that have gates.
func (s *stepper) eachHeld(yield func(held) bool) {
	st, run, ok := s.stage()
	if !ok || !yield(heldStage(st, run)) {
		return
	}
	for i := range run.Groups {
		if len(st.Groups[i].Gates) > 0 && !yield(heldGroup(run, &st.Groups[i], &run.Groups[i])) {
			return
		}
	}
}

// gatesPassed opens the gates on one side and reports whether all have passed.
func (s *stepper) gatesPassed(h held, when approval.When) bool {
	if h.skip {
		return true
	}
	passed := true
	for i := range h.planned {
		if pg := &h.planned[i]; pg.When == when && !s.gatePassed(h, pg, s.gate(h, pg)) {
			passed = false
		}
	}
	return passed
}

// gate returns the planned gate's run, opening it when it is reached.
func (s *stepper) gate(h held, pg *PlannedGate) *Gate {
	if g := runstate.GateOf(*h.gates, pg); g != nil {
		return g
	}
	opened := h.reached
	if pg.When == approval.After {
		opened = h.ended
	}
	*h.gates = append(*h.gates, Gate{When: pg.When, Type: pg.Type, State: Pending, Opened: opened})
	g := &(*h.gates)[len(*h.gates)-1]
	s.changed = true
	switch {
	case pg.Type == Approval:
		s.openRequest(h, pg, g)
	case pg.Type == ScheduledStart:
		g.Until = At(pg.Schedule.Next(opened.Time()))
		s.emitHeld(h, Event{Type: WaitStarted, Until: g.Until.Time(), Message: runstate.ScheduledStartMessage})
	case pg.When == approval.After && h.skipWait:
		s.close(g, Skipped)
	default:
		g.Until = opened.Add(pg.Wait)
		s.emitHeld(h, Event{Type: WaitStarted, Until: g.Until.Time()})
	}
	return g
}

// openRequest asks for approval, as the next attempt of the gate.
func (s *stepper) openRequest(h held, pg *PlannedGate, g *Gate) {
	g.Attempt++
	g.State, g.Decisions, g.Until, g.Ended, g.Answered = Pending, nil, 0, 0, nil
	if g.Attempt > 1 {
		g.Opened = s.now
	}
	if d := pg.Policy.Expires; d > 0 {
		g.Until = g.Opened.Add(d)
	}
	s.emitHeld(h, Event{
		Type: ApprovalRequested, Request: s.request(h, g).Name, Attempt: g.Attempt,
		Digest: s.p.Digest, Until: g.Until.Time(),
	})
}

// gatePassed reports whether an open gate lets the run through now.
func (s *stepper) gatePassed(h held, pg *PlannedGate, g *Gate) bool {
	switch g.State {
	case Pending:
	case Failed: // rejected, and the run was started again
		s.openRequest(h, pg, g)
		return false
	default:
		return true
	}
	if g.Type == TimedWait && h.skipWait && g.When == approval.After {
		s.close(g, Skipped)
		return true
	}
	if g.Until == 0 || s.now < g.Until {
		return false
	}
	if g.Type == Approval {
		s.emitHeld(h, Event{Type: ApprovalExpired, Request: s.request(h, g).Name, Attempt: g.Attempt, Digest: s.p.Digest})
		s.openRequest(h, pg, g)
		return false
	}
	s.close(g, Completed)
	s.emitHeld(h, g.EndEvent(""))
	return true
}

func (s *stepper) close(g *Gate, state State) {
	g.State, g.Ended = state, s.now
	s.changed = true
}

// closeGates skips the open gates of the current stage and its groups.
func (s *stepper) closeGates() { s.eachHeld(s.closeHeld) }

// closeHeld skips the open gates of h.
func (s *stepper) closeHeld(h held) bool {
	for i := range *h.gates {
		if g := &(*h.gates)[i]; g.State == Pending {
			s.close(g, Skipped)
		}
	}
	return true
}

// emitHeld records an event of the stage or the group.
func (s *stepper) emitHeld(h held, e Event) {
	e.Group = h.group
	s.emitStage(e)
}

// completeGate ends a scheduled start, or the wait of a pause, early.
func (s *stepper) completeGate(c Command) {
	h, g := s.scheduled(c.Name)
	s.close(g, Completed)
	g.By = c.By.Name
	s.emitHeld(h, g.EndEvent(c.By.Name))
}

// scheduled returns the scheduled start, or the wait of a pause, that is open at
// the current stage, or the group of it, of that name; nil when there is none.
func (s *stepper) scheduled(name string) (held, *Gate) {
	for h := range s.eachHeld {
		if !s.isCalled(h, name) {
			continue
		}
		for i := range *h.gates {
			if g := &(*h.gates)[i]; (g.Type == ScheduledStart || h.pause && g.Type == TimedWait) && g.State == Pending {
				return h, g
			}
		}
	}
	return held{}, nil
}

// isCalled reports whether a command means h by name. A name that a stage has is
// never that of a group alone.
func (s *stepper) isCalled(h held, name string) bool {
	stage := s.p.Stages[s.r.Stage].Name
	if h.group == "" {
		return name == stage
	}
	return name == stage+"/"+h.group || name == h.group && s.p.StageIndex(name) < 0
}
