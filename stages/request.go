package stages

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
)

// decide takes a decision to the gate that it is about.
func (s *stepper) decide(c Command) string {
	h, g := s.gateFor(c.Decision.Binding)
	return s.weigh(h, g, *c.Decision)
}

// undecidable returns why there is nothing to be decided by c, or "".
func (s *stepper) undecidable(c *Command) string {
	switch {
	case c.Decision == nil:
		return "the command has no decision"
	case c.Decision.IsMomentary():
		return "an approval that holds at a point in time only is no command, which may be read late: it is an answer of the step"
	case s.r.State == Stopping && s.r.Ending != Stopped || s.r.State == Failed:
		return "the run is ending"
	}
	if _, g := s.gateFor(c.Decision.Binding); g == nil {
		return "there is no open request " + string(c.Decision.Binding.When) + " " + heldName(c.Decision.Binding)
	}
	return ""
}

// heldName says which stage or group a binding is about.
func heldName(b approval.Binding) string {
	if b.Group != "" {
		return "group " + b.Group + " of stage " + b.Stage
	}
	return "stage " + b.Stage
}

// weigh lets the approval policy judge a decision. What was taken in before the
// request opened is not about it, however late it is read.
func (s *stepper) weigh(h held, g *Gate, d approval.Decision) string {
	req := s.request(h, g)
	if !d.At.IsZero() && At(d.At) < g.Opened {
		return "request " + req.Name + ": it was taken in before the request opened"
	}
	d.At = s.now.Time()
	next, outcome, err := approval.Evaluate(req, d, s.now.Time())
	if err != nil {
		return err.Error()
	}
	g.Decisions, g.Answered = next.Decisions, nil
	e := s.told(ApprovalGiven, &req, &d)
	switch outcome {
	case approval.Accepted:
		e.Type = ApprovalAccepted
		s.close(g, Completed)
	case approval.Rejected:
		e.Type = ApprovalRejected
		s.close(g, Failed)
	default:
	}
	s.emitHeld(h, e)
	if outcome == approval.Rejected {
		reason := "request " + req.Name + " was rejected by " + d.By.Name
		s.undo(Undo{Cause: GateRejected, Message: reason})
		s.fail(reason)
	}
	return ""
}

// told is the event of a decision.
func (s *stepper) told(typ EventType, r *approval.Request, d *approval.Decision) Event {
	return Event{
		Type: typ, Request: r.Name, Attempt: r.Attempt, Digest: s.p.Digest, By: d.By.Name, Message: cut(d.Comment),
	}
}

// maxAnswered is how many of those that approved for a point in time are told apart.
const maxAnswered = 16

// answers takes in what authorities answer now.
func (s *stepper) answers(all []Answer) {
	for i := range all {
		b := all[i].Request.Binding
		if slices.ContainsFunc(all[:i], func(a Answer) bool { return a.Request.Binding == b }) {
			continue
		}
		if h, g := s.gateFor(b); g != nil && s.r.State == Running {
			s.answersTo(h, g, all)
		}
	}
}

// answersTo takes in the answers to one request. Those that hold at a point in time
// only count together, and are recorded with the gate that they open.
func (s *stepper) answersTo(h held, g *Gate, all []Answer) {
	req := s.request(h, g)
	now, outcome := req, approval.Pending
	for i := range all {
		d := all[i].Decision
		if all[i].Request.Binding != req.Binding || recorded(&all[i].Request) != len(g.Decisions) {
			continue
		}
		d.Binding, d.At = req.Binding, At(d.At).Time()
		if d.At.IsZero() {
			d.At = s.now.Time()
		}
		if !d.IsMomentary() {
			if s.weigh(h, g, d) == "" {
				return
			}
			continue
		}
		if next, came, err := approval.Evaluate(now, d, s.now.Time()); err == nil {
			now, outcome = next, came
		}
	}
	given := now.Decisions[len(g.Decisions):]
	if outcome != approval.Accepted {
		s.noteAnswers(h, g, &req, given)
		return
	}
	g.Decisions, g.Answered = now.Decisions, nil
	s.close(g, Completed)
	for i := range given {
		typ := ApprovalGiven
		if i == len(given)-1 {
			typ = ApprovalAccepted
		}
		s.emitHeld(h, s.told(typ, &req, &given[i]))
	}
}

// recorded is how many decisions a request had when it was shown.
func recorded(r *approval.Request) (n int) {
	for i := range r.Decisions {
		if !r.Decisions[i].IsMomentary() {
			n++
		}
	}
	return n
}

// noteAnswers tells once of each who approved too early.
func (s *stepper) noteAnswers(h held, g *Gate, r *approval.Request, given []approval.Decision) {
	for i := range given {
		name := given[i].By.Name
		if slices.Contains(g.Answered, name) || len(g.Answered) >= maxAnswered {
			continue
		}
		g.Answered = append(slices.Clone(g.Answered), name)
		s.emitHeld(h, s.told(ApprovalEarly, r, &given[i]))
	}
}

// gateFor returns the open approval of the current stage, or of a group of it,
// that a decision is about, or nil.
func (s *stepper) gateFor(b approval.Binding) (held, *Gate) {
	if st, _, ok := s.stage(); !ok || st.Name != b.Stage {
		return held{}, nil
	}
	for h := range s.eachHeld {
		for i := range *h.gates {
			if g := &(*h.gates)[i]; h.group == b.Group && g.Type == Approval && g.When == b.When && g.State == Pending {
				return h, g
			}
		}
	}
	return held{}, nil
}

func (s *stepper) request(h held, g *Gate) approval.Request {
	return requestAt(s.p, &s.r, h, g)
}

// asks adds an action for every open request.
func (s *stepper) asks(out []Action) []Action {
	if s.r.State != Running {
		return out
	}
	for _, req := range requests(s.p, &s.r) {
		out = append(out, Action{Type: Ask, Attempt: req.Attempt, Request: &req})
	}
	return out
}

// Requests returns the approval requests of the run that are open: that of the
// current stage, and those of its groups in their order. A run that is not one of
// the plan, by [Check], has none.
func Requests(p *Plan, r *Run) []approval.Request {
	if Check(p, r) != nil {
		return nil
	}
	return requests(p, r)
}

func requests(p *Plan, r *Run) []approval.Request {
	if r.IsEnded() {
		return nil
	}
	var out []approval.Request
	for h := range (&stepper{p: p, r: *r}).eachHeld {
		for i := range *h.gates {
			if g := &(*h.gates)[i]; g.Type == Approval && g.State == Pending {
				out = append(out, requestAt(p, r, h, g))
			}
		}
	}
	return out
}

// requestAt returns what a gate of the current stage asks for.
func requestAt(p *Plan, r *Run, h held, g *Gate) approval.Request {
	stage := p.Stages[r.Stage].Name
	req := approval.Request{
		Name: approval.GroupRequestName(r.Name, stage, h.group, g.When),
		Run:  r.Name, Placement: r.Placement, Snapshot: p.Index, Starter: r.Starter,
		Binding: approval.Binding{
			RunUID: r.UID, Stage: stage, Group: h.group, When: g.When, Attempt: g.Attempt, Plan: p.Digest,
		},
		Opened: g.Opened.Time(), Decisions: g.Decisions,
	}
	for i := range h.planned {
		if pg := &h.planned[i]; pg.When == g.When && pg.Type == Approval {
			req.Policy = pg.Policy
		}
	}
	for i := range *h.gates {
		if w := &(*h.gates)[i]; w.When == g.When && w.Type != Approval && w.State == Pending && w.Until > At(req.NotBefore) {
			req.NotBefore = w.Until.Time()
		}
	}
	return req
}
