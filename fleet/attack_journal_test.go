package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// journalChecker reads the journal of a run and reports errors in it.
type journalChecker struct {
	t     *testing.T
	model attackModel
	// said are all decisions, by their comment. waiting are the decisions whose result the journal
	// must still contain, in the order of their storage. ids are the commands of the run.
	said    map[string]approval.Decision
	waiting []approval.Decision
	ids     []string
	// named are the requests that decisions without a binding name, by the comment of the decision.
	// Such a request may have been decided since.
	named   map[string]string
	counted map[string]bool
	seen    map[string]int
}

func (r *journalChecker) begin(p approval.Policy, run step.Run) {
	r.model = attackModel{policy: p, starter: "sam", run: stages.Running, binding: approval.Binding{RunUID: run.UID, Plan: run.Plan}, at: -1}
	r.waiting, r.ids, r.named, r.counted = nil, nil, map[string]string{}, map[string]bool{}
}

// expect records that the store has a decision.
func (r *journalChecker) expect(d approval.Decision) { r.waiting = append(r.waiting, d) }

func (r *journalChecker) wrong(ev stages.Event, format string, args ...any) {
	r.t.Errorf("%s: %+v\nin %+v", fmt.Sprintf(format, args...), ev, r.model)
}

// judge checks the journal of a run from its beginning, and the run.
func (r *journalChecker) judge(run *step.Run, events []stages.Event) {
	first := len(events)
	for i, ev := range events {
		if ev.Type == stages.RunCreated {
			first = i
		}
	}
	for _, ev := range events[first:] {
		r.read(ev)
	}
	for i := range r.waiting {
		r.t.Errorf("what became of %+v? The run is %s\n%s", r.waiting[i], run.State, tail(events[first:]))
	}
	if run.Form(runstate.Key{}).Stage < len(run.Form(runstate.Key{}).Stages) && len(run.Form(runstate.Key{}).Stages[run.Form(runstate.Key{}).Stage].Gates) > 0 {
		gates := run.Form(runstate.Key{}).Stages[run.Form(runstate.Key{}).Stage].Gates
		r.compare(&gates[len(gates)-1])
	}
}

func tail(events []stages.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "%s %s %s %d by %q %s %s\n", ev.Time.Format(time.TimeOnly), ev.Type, ev.Request, ev.Attempt, ev.By, ev.Command, ev.Message)
	}
	return b.String()
}

// compare checks the decisions that a gate has kept.
func (r *journalChecker) compare(g *runstate.Gate) {
	if len(g.Decisions) != len(r.model.given) {
		r.t.Errorf("the gate has %+v, the journal tells of %+v", g.Decisions, r.model.given)
		return
	}
	for i, d := range g.Decisions {
		if want := r.model.given[i]; d.By.Name != want.By.Name || d.Binding != r.model.binding || !d.At.Equal(want.At) || d.Comment != want.Comment {
			r.t.Errorf("the gate has %+v, want %+v", d, want)
		}
	}
}

func (r *journalChecker) read(ev stages.Event) {
	switch ev.Type {
	case stages.ApprovalRequested:
		r.opened(ev)
	case stages.ApprovalExpired:
		r.about(ev)
		if !r.model.expired(ev.Time) || r.model.state != stages.Pending {
			r.wrong(ev, "it has not expired")
		}
		r.seen["expired"]++
	case stages.ApprovalGiven, stages.ApprovalAccepted, stages.ApprovalRejected:
		r.decided(ev)
	case stages.CommandRefused:
		if ev.Command == string(stages.Decide) {
			r.refused(ev)
		}
	default:
		r.went(ev)
	}
}

// went follows the run, which must not pass an undecided gate.
func (r *journalChecker) went(ev stages.Event) {
	passed := map[stages.EventType]int{stages.StageStarted: map[string]int{"a": 0, "b": 2}[ev.Stage], stages.ClusterStarted: map[string]int{"a": 0, "b": 2}[ev.Cluster], stages.RunCompleted: 2}
	if need, gated := passed[ev.Type]; gated && (r.model.at < need || r.model.at == need && r.model.state != stages.Completed) {
		r.wrong(ev, "the gate has not passed")
	}
	switch ev.Type {
	case stages.RunResumed, stages.RunStarted:
		r.model.run = stages.Running
	case stages.RunAborted:
		r.model.run = stages.Aborted
	case stages.RunCompleted:
		r.model.run = stages.Completed
		r.seen["completed"]++
	default:
	}
}

// about checks which request an event of an approval is about.
func (r *journalChecker) about(ev stages.Event) {
	if b := r.model.binding; ev.Request != r.model.request() || ev.Attempt != b.Attempt || ev.Digest != b.Plan {
		r.wrong(ev, "it is about another request")
	}
}

func (r *journalChecker) opened(ev stages.Event) {
	m := &r.model
	if m.at < 0 || m.state == stages.Completed {
		m.at++
		m.binding.Attempt = 0
	} else if m.state == stages.Pending && !m.expired(ev.Time) {
		r.wrong(ev, "the request before it is still open")
	}
	if m.at >= len(attackGates) {
		r.wrong(ev, "there is no such gate")
		return
	}
	m.now = ev.Time
	m.open(m.at, m.binding.Attempt+1)
	r.about(ev)
}

// decided checks a decision that counts: it was given, for this request, and the policy allows it.
func (r *journalChecker) decided(ev stages.Event) {
	r.about(ev)
	d, known := r.said[ev.Message]
	switch {
	case !known || d.By.Name != ev.By:
		r.wrong(ev, "no answer said so")
	case r.counted[ev.Message]:
		r.wrong(ev, "it counts twice")
	}
	if d.Binding == (approval.Binding{}) {
		d.Binding = r.model.binding
	}
	if named := r.named[ev.Message]; named != "" && named != ev.Request {
		r.wrong(ev, "it was said to be about %s", named)
	}
	d.At = ev.Time
	if r.counted[ev.Message] = true; !r.model.allows(&d, ev.Time) {
		r.wrong(ev, "the policy does not allow it: %+v", d)
	}
	if r.model.count(&d); r.model.told[len(r.model.told)-1].Type != ev.Type {
		r.wrong(ev, "want %+v", r.model.told[len(r.model.told)-1])
	}
	r.seen["counted"]++
	if ev.Type == stages.ApprovalRejected {
		r.seen["rejected"]++
	}
	if !r.heard(func(w approval.Decision) bool { return w.Comment == ev.Message }) {
		r.seen["by the authority"]++
	}
}

// refused checks that the policy does not allow a decision that does not count.
func (r *journalChecker) refused(ev stages.Event) {
	r.seen["refused"]++
	if ev.Message == "" {
		r.wrong(ev, "it does not tell why")
	}
	mine := false
	found := r.heard(func(d approval.Decision) bool {
		if d.By.Name != ev.By {
			return false
		}
		mine = true
		if named := r.named[d.Comment]; named != "" && named != r.model.request() {
			return true
		}
		if d.Binding == (approval.Binding{}) {
			d.Binding = r.model.binding
		}
		return !r.model.allows(&d, ev.Time)
	})
	if mine && !found && ev.By != "sam" {
		r.wrong(ev, "a decision that the policy allows was lost: %+v", r.waiting)
	}
}

// heard removes the first waiting decision that matches.
func (r *journalChecker) heard(match func(approval.Decision) bool) bool {
	for i, d := range r.waiting {
		if match(d) {
			r.waiting = append(r.waiting[:i:i], r.waiting[i+1:]...)
			return true
		}
	}
	return false
}
