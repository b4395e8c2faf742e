package stages

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
)

// gatesPassed opens the gates on one side of the current stage and tells
// whether all have passed.
func (s *stepper) gatesPassed(when approval.When) bool {
	st, run, _ := s.stage()
	if run.SkipGates {
		return true
	}
	passed := true
	for i := range st.Gates {
		if pg := &st.Gates[i]; pg.When == when && !s.gatePassed(s.gate(pg, run)) {
			passed = false
		}
	}
	return passed
}

// gate returns the planned gate's run, opening it when it is reached.
func (s *stepper) gate(pg *PlannedGate, run *StageRun) *Gate {
	i := slices.IndexFunc(run.Gates, func(g Gate) bool { return g.When == pg.When && g.Type == pg.Type })
	if i >= 0 {
		return &run.Gates[i]
	}
	opened := run.Reached
	if pg.When == approval.After {
		opened = run.Done
	}
	run.Gates = append(run.Gates, Gate{When: pg.When, Type: pg.Type, State: Pending, Opened: opened})
	g := &run.Gates[len(run.Gates)-1]
	s.changed = true
	switch {
	case pg.Type == Approval:
		s.openRequest(g)
	case pg.When == approval.After && run.SkipWait:
		s.close(g, Skipped)
	default:
		g.Until = opened.Add(pg.Wait)
		s.emitStage(Event{Type: WaitStarted, Until: g.Until.Time()})
	}
	return g
}

// openRequest asks for approval, as the next attempt of the gate.
func (s *stepper) openRequest(g *Gate) {
	g.Attempt++
	g.State, g.Decisions, g.Until, g.Ended = Pending, nil, 0, 0
	if g.Attempt > 1 {
		g.Opened = s.now
	}
	if d := s.planned(g).Policy.Expires; d > 0 {
		g.Until = g.Opened.Add(d)
	}
	s.emitStage(Event{
		Type: ApprovalRequested, Request: s.request(g).Name, Attempt: g.Attempt,
		Digest: s.p.Digest, Until: g.Until.Time(),
	})
}

// planned returns the gate of the plan that g runs.
func (s *stepper) planned(g *Gate) *PlannedGate {
	st, _, _ := s.stage()
	for i := range st.Gates {
		if st.Gates[i].When == g.When && st.Gates[i].Type == g.Type {
			return &st.Gates[i]
		}
	}
	return &PlannedGate{}
}

// gatePassed tells whether an open gate lets the run through now.
func (s *stepper) gatePassed(g *Gate) bool {
	switch g.State {
	case Pending:
	case Failed: // rejected, and the run was started again
		s.openRequest(g)
		return false
	default:
		return true
	}
	if g.Type == TimedWait && s.r.Stages[s.r.Stage].SkipWait && g.When == approval.After {
		s.close(g, Skipped)
		return true
	}
	if g.Until == 0 || s.now < g.Until {
		return false
	}
	if g.Type == Approval {
		s.emitStage(Event{Type: ApprovalExpired, Request: s.request(g).Name, Attempt: g.Attempt, Digest: s.p.Digest})
		s.openRequest(g)
		return false
	}
	s.close(g, Completed)
	s.emitStage(Event{Type: WaitEnded})
	return true
}

func (s *stepper) close(g *Gate, state State) {
	g.State, g.Ended = state, s.now
	s.changed = true
}

// closeGates skips the open gates of the current stage.
func (s *stepper) closeGates() {
	if _, run, ok := s.stage(); ok {
		for i := range run.Gates {
			if g := &run.Gates[i]; g.State == Pending {
				s.close(g, Skipped)
			}
		}
	}
}

// decide takes a decision to the gate that it is about.
func (s *stepper) decide(c Command) string {
	if c.Decision == nil {
		return "the command has no decision"
	}
	if s.r.State == Stopping && s.r.Ending != Stopped || s.r.State == Failed {
		return "the run is ending"
	}
	g := s.gateFor(c.Decision.Binding)
	if g == nil {
		return "there is no open request " + string(c.Decision.Binding.When) + " stage " + c.Decision.Binding.Stage
	}
	return s.weigh(g, *c.Decision)
}

// weigh lets the approval policy judge a decision. What was taken in before the
// request opened is not about it, however late it is read.
func (s *stepper) weigh(g *Gate, d approval.Decision) string {
	req := s.request(g)
	if !d.At.IsZero() && At(d.At) < g.Opened {
		return "request " + req.Name + ": it was taken in before the request opened"
	}
	d.At = s.now.Time()
	next, outcome, err := approval.Evaluate(req, d, s.now.Time())
	if err != nil {
		return err.Error()
	}
	g.Decisions = next.Decisions
	e := Event{
		Type: ApprovalGiven, Request: req.Name, Attempt: g.Attempt,
		Digest: s.p.Digest, By: d.By.Name, Message: cut(d.Comment),
	}
	switch outcome {
	case approval.Accepted:
		e.Type = ApprovalAccepted
		s.close(g, Completed)
	case approval.Rejected:
		e.Type = ApprovalRejected
		s.close(g, Failed)
	default:
	}
	s.emitStage(e)
	if outcome == approval.Rejected {
		s.fail("request " + req.Name + " was rejected by " + d.By.Name)
	}
	return ""
}

// gateFor returns the open approval of the current stage that a decision is
// about, or nil.
func (s *stepper) gateFor(b approval.Binding) *Gate {
	st, run, ok := s.stage()
	if !ok || st.Name != b.Stage {
		return nil
	}
	for i := range run.Gates {
		if g := &run.Gates[i]; g.Type == Approval && g.When == b.When && g.State == Pending {
			return g
		}
	}
	return nil
}

func (s *stepper) request(g *Gate) approval.Request {
	return requestAt(s.p, &s.r, s.r.Stage, g)
}

// asks adds an action for every open request.
func (s *stepper) asks(out []Action) []Action {
	if s.r.State != Running {
		return out
	}
	for _, req := range Requests(s.p, &s.r) {
		out = append(out, Action{Type: Ask, Attempt: req.Attempt, Request: &req})
	}
	return out
}

// Requests returns the approval requests of the run that are open.
func Requests(p *Plan, r *Run) []approval.Request {
	if r.Stage >= len(p.Stages) || r.IsEnded() {
		return nil
	}
	var out []approval.Request
	for i := range r.Stages[r.Stage].Gates {
		if g := &r.Stages[r.Stage].Gates[i]; g.Type == Approval && g.State == Pending {
			out = append(out, requestAt(p, r, r.Stage, g))
		}
	}
	return out
}

// requestAt returns what a gate asks for.
func requestAt(p *Plan, r *Run, stage int, g *Gate) approval.Request {
	st := &p.Stages[stage]
	req := approval.Request{
		Name: approval.RequestName(r.Name, st.Name, g.When),
		Run:  r.Name, Placement: r.Placement, Snapshot: p.Index, Starter: r.Starter,
		Binding: approval.Binding{
			RunUID: r.UID, Stage: st.Name, When: g.When, Attempt: g.Attempt, Plan: p.Digest,
		},
		Opened: g.Opened.Time(), Decisions: g.Decisions,
	}
	for i := range st.Gates {
		if pg := &st.Gates[i]; pg.When == g.When && pg.Type == Approval {
			req.Policy = pg.Policy
		}
	}
	return req
}
