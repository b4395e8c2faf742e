package step

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// maxAnswered limits the number of remembered identities that approved for a point in time.
const maxAnswered = 16

// Requests returns the open approval requests of the run: the request of the current stage first,
// then the requests of its groups in their order. A run that is Stopping because it failed or was
// superseded has none, because it takes no more decisions. Neither has a run that [Run.Check]
// refuses.
func Requests(p *stages.Plan, r *Run) []approval.Request {
	if r.Check(p) != nil {
		return nil
	}
	return gatesOf(reading(p, r)).requests()
}

// requestFor returns the open approval, of the current stage or of a group of it, that a decision
// is about, or nil.
func (c control) requestFor(b approval.Binding) (gates, *runstate.Gate) {
	if st, _, ok := c.stage(); !ok || st.Name != b.Stage {
		return gates{}, nil
	}
	for gs, g := range gatesOf(c.draft).open {
		if gs.group == b.Group && g.Type == stages.Approval && g.When == b.When {
			return gs, g
		}
	}
	return gates{}, nil
}

// decide applies the approval policy to a decision on a request and returns why the decision does
// not count, or "". A decision that was received before the request opened does not count, however
// late it is read.
func (c control) decide(gs gates, g *runstate.Gate, decision approval.Decision) string {
	req := gs.request(g)
	if !decision.At.IsZero() && stages.At(decision.At) < g.Opened {
		return "request " + req.Name + ": it was taken in before the request opened"
	}
	decision.At = c.now.Time()
	next, outcome, err := approval.Evaluate(req, decision, c.now.Time())
	if err != nil {
		return err.Error()
	}
	g.Decisions, g.Answered = next.Decisions, nil
	switch outcome {
	case approval.Accepted:
		gs.end(g, stages.Completed)
		gs.emitDecision(stages.ApprovalAccepted, &req, &decision)
	case approval.Rejected:
		gs.emitDecision(stages.ApprovalRejected, &req, &decision)
		c.rejectGate(gs, g, "request "+req.Name+" was rejected by "+decision.By.Name)
	default:
		gs.emitDecision(stages.ApprovalGiven, &req, &decision)
	}
	return ""
}

// rejectGate ends the run because of a gate that was rejected.
func (c control) rejectGate(gs gates, g *runstate.Gate, reason string) {
	gs.end(g, stages.Failed)
	c.requestRollback(stages.RollbackRequest{Cause: stages.GateRejected, Message: reason})
	c.fail(reason)
}

// answers applies the answers of authorities.
func (c control) answers(all []stages.Answer) {
	for i := range all {
		b := all[i].Request.Binding
		if slices.ContainsFunc(all[:i], func(a stages.Answer) bool { return a.Request.Binding == b }) {
			continue
		}
		if gs, g := c.requestFor(b); g != nil && c.r.State == stages.Running {
			c.answersTo(gs, g, all)
		}
	}
}

// answersTo applies the answers to one request. Approvals with PointInTime count together, and are
// recorded with the gate that they open.
func (c control) answersTo(gs gates, g *runstate.Gate, all []stages.Answer) {
	req := gs.request(g)
	now, outcome := req, approval.Pending
	for i := range all {
		decision := all[i].Decision
		if all[i].Request.Binding != req.Binding || recorded(&all[i].Request) != len(g.Decisions) {
			continue
		}
		decision.Binding, decision.At = req.Binding, stages.At(decision.At).Time()
		if decision.At.IsZero() {
			decision.At = c.now.Time()
		}
		if !decision.IsMomentary() {
			if c.decide(gs, g, decision) == "" {
				return
			}
			continue
		}
		if next, came, err := approval.Evaluate(now, decision, c.now.Time()); err == nil {
			now, outcome = next, came
		}
	}
	given := now.Decisions[len(g.Decisions):]
	if outcome == approval.Accepted {
		g.Decisions, g.Answered = now.Decisions, nil
		gs.end(g, stages.Completed)
		for i := range given {
			typ := stages.ApprovalGiven
			if i == len(given)-1 {
				typ = stages.ApprovalAccepted
			}
			gs.emitDecision(typ, &req, &given[i])
		}
		return
	}
	// One event for each identity that approved too early.
	for i := range given {
		if name := given[i].By.Name; !slices.Contains(g.Answered, name) && len(g.Answered) < maxAnswered {
			g.Answered = append(slices.Clone(g.Answered), name)
			gs.emitDecision(stages.ApprovalEarly, &req, &given[i])
		}
	}
}

// recorded returns the number of recorded decisions of a request. Approvals for a point in time are
// not recorded.
func recorded(r *approval.Request) (n int) {
	for i := range r.Decisions {
		if !r.Decisions[i].IsMomentary() {
			n++
		}
	}
	return n
}

// emitDecision records the event of a decision.
func (gs *gates) emitDecision(typ stages.EventType, r *approval.Request, decision *approval.Decision) {
	gs.emit(stages.Event{
		Type: typ, Request: r.Name, Attempt: r.Attempt, Digest: gs.d.p.Digest, By: decision.By.Name, Message: cut(decision.Comment),
	})
}
