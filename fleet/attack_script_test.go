package fleet

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// move makes a move, valid or not, lets the engine carry it out and compares the result.
func (a *attacked) move() {
	if a.model.final() && a.rnd.IntN(3) > 0 {
		a.again()
		return
	}
	switch a.rnd.IntN(24) {
	case 0, 1:
		time.Sleep(time.Duration(a.rnd.IntN(80)) * time.Minute)
	case 2:
		a.again()
	case 3:
		a.command()
	case 4, 5, 6, 7, 8, 9, 10, 11:
		a.answer(a.id())
	case 12:
		a.volley()
	case 13:
		a.sameID()
	case 14, 15:
		a.replay()
	default:
		a.forge()
	}
	if a.model.run == stages.Failed && a.rnd.IntN(2) == 0 {
		a.steer(stages.Start)
	}
	a.step()
}

// step carries out the stored commands as the driver of the run does, by a clock that may be wrong.
// It may die before or after it saves the result.
func (a *attacked) step() {
	ctx := a.t.Context()
	was := a.model
	now := time.Now().Add([]time.Duration{0, 0, 0, 10 * time.Minute, -time.Hour, -3 * time.Hour}[a.rnd.IntN(6)])
	cs, taken, err := a.e.commands.List(ctx, a.rec.Run.UID)
	a.must(err)
	if a.rnd.IntN(12) == 0 && len(cs) > 0 {
		a.saw("lost save", 1)
		step.Step(a.plan, a.rec.Run, stages.Input{Now: now, Commands: cs})
		a.load()
	}
	events := a.carryOut(stages.Input{Now: now, Commands: cs})
	a.compare(events, a.model.step(slices.Clone(a.sent), now))
	a.rev, err = a.store.Put(ctx, record.RunKey("r"), record.Encode(a.rec), a.rev)
	a.must(err)
	a.tidy(taken)
	if a.rnd.IntN(16) == 0 {
		a.saw("taken over", 1)
		a.load()
	}
	a.notice(&was)
	a.check("a step")
}

// carryOut steps the run until it reaches a gate or its end.
func (a *attacked) carryOut(in stages.Input) (events []stages.Event) {
	for {
		ready := step.Step(a.plan, a.rec.Run, in)
		next := *a.rec
		next.Run = ready.Run
		a.rec, events = &next, append(events, ready.Events...)
		in.Commands, in.Observations = nil, nil
		for _, f := range ready.Run.Form(runstate.Key{}).InFlight {
			if f.Attempt != 0 {
				in.Observations = append(in.Observations, stages.Observation{
					Cluster: a.plan.Clusters[f.Pos].Name, Attempt: f.Attempt, Revision: "revision",
					Sent: true, Applied: true, Current: true, Healthy: true,
				})
			}
		}
		if len(in.Observations) == 0 {
			return events
		}
	}
}

// tidy deletes the processed commands, unless the engine that saved the run dies before the
// deletion.
func (a *attacked) tidy(taken []commands.Stored) {
	if len(taken) > 0 && a.rnd.IntN(8) == 0 {
		a.saw("left commands", 1)
		return
	}
	for _, c := range taken {
		i := slices.IndexFunc(a.sent, func(s stages.Command) bool { return s.ID == c.ID })
		if i < 0 {
			a.t.Errorf("command %s was not given", c.Key)
			return
		}
		a.spent = append(a.spent, spentCommand{a.sent[i], c.Value})
		a.must(a.store.Delete(a.t.Context(), c.Key, c.Revision))
	}
	a.sent = nil
}

// compare checks the journal. It must contain every decision that counts once, with author,
// comment, time and digest, every other decision with the reason why it does not count, and every
// request that was opened or has expired.
func (a *attacked) compare(events []stages.Event, want []toldEvent) {
	var got []toldEvent
	for _, ev := range events {
		switch ev.Type {
		case stages.ApprovalRequested, stages.ApprovalGiven, stages.ApprovalAccepted, stages.ApprovalRejected, stages.ApprovalExpired:
			got = append(got, toldEvent{ev.Type, ev.Request, ev.Digest, ev.By, ev.Message, "", ev.Attempt})
		case stages.CommandRefused:
			why := ""
			if ev.Message != "" {
				why = "why"
			}
			got = append(got, toldEvent{Type: ev.Type, By: ev.By, Message: why, Command: ev.Command})
		default:
			continue
		}
		a.saw(string(ev.Type), 1)
		if !ev.Time.Equal(a.model.now) {
			a.t.Errorf("%+v is of another time than %v", ev, a.model.now)
		}
	}
	if !slices.Equal(got, want) {
		a.t.Errorf("the journal tells\n%+v\nwant\n%+v", got, want)
	}
}

// notice keeps the bindings of closed requests.
func (a *attacked) notice(was *attackModel) {
	if a.model.binding != was.binding {
		a.old = append(a.old, was.binding)
	}
	if a.model.run != was.run {
		a.saw(string(a.model.run), 1)
		if was.run == stages.Failed && a.model.run == stages.Running {
			a.saw("restarted", 1)
		}
	}
}

func (a *attacked) saw(what string, n int) { a.seen[what] += n }

// decision draws a decision. About half of them are about the open request.
func (a *attacked) decision() approval.Decision {
	names := []string{"ann", "ann", "bob", "cid", "dan", "sam", "sam", "ann ", "Ann", "an\u200bn", "\x1bann", ""}
	groups := [][]string{{"sre"}, {"sre", "release"}, {"sre", "release"}, {"release"}, {"dev"}, nil}
	d := approval.Decision{
		Verdict: approval.Approve, At: commands.Later(a.e.state.Now(), a.model.now), Binding: a.model.binding, Comment: fmt.Sprint("because ", a.drawn),
		By: approval.Identity{Name: names[a.rnd.IntN(len(names))], Groups: groups[a.rnd.IntN(len(groups))]},
	}
	switch a.rnd.IntN(40) {
	case 0, 1, 2, 3, 4:
		d.Verdict = approval.Reject
	case 5:
		d.Verdict = "approve"
	case 6:
		d.Comment = string(make([]byte, 1025))
	}
	a.bend(&d.Binding)
	return d
}

// bend may turn a binding into the binding of another request.
func (a *attacked) bend(b *approval.Binding) {
	switch a.rnd.IntN(16) {
	case 0:
		b.RunUID += "0"
	case 1:
		b.Stage = map[string]string{"a": "b", "b": "a"}[b.Stage]
	case 2:
		b.When = map[approval.When]approval.When{approval.Before: approval.After, approval.After: approval.Before}[b.When]
	case 3:
		b.Attempt += 1 - 2*a.rnd.IntN(2)
	case 4:
		b.Plan = "0" + b.Plan[1:]
	case 5, 6, 7:
		*b = a.old[a.rnd.IntN(len(a.old))]
	}
}

// answer goes through RunHandle.Command.
func (a *attacked) answer(id string) {
	d := a.decision()
	if d.Binding == a.model.binding && a.rnd.IntN(2) == 0 {
		d.Binding = approval.Binding{}
	}
	a.give(id, d)
}

// give gives an answer and compares the result with the expected one.
func (a *attacked) give(id string, d approval.Decision) {
	request, quote := a.model.request(), d.Binding
	if a.rnd.IntN(16) == 0 {
		request = []string{"r-after-a", "r-before-a", "r-before-b", "r-after-b", ""}[a.rnd.IntN(5)]
	}
	want, stores := a.takes(request, id, &d)
	err := a.e.Run("r").Command(a.t.Context(), stages.Command{Verb: stages.Decide, ID: id, Name: request, By: d.By, Decision: &approval.Decision{Verdict: d.Verdict, Comment: d.Comment, Binding: quote}})
	if got := kindOf(err); got != want {
		a.t.Errorf("answer %s to %q, %+v: %v, want %s", id, request, d, err, want)
	}
	a.saw(want, 1)
	if stores {
		a.sent = append(a.sent, stages.Command{ID: id, Verb: stages.Decide, At: a.e.state.Now(), By: d.By, Decision: &d})
	}
}

// takes returns the expected result of an answer, and whether it is stored. An answer without a
// binding is bound to the request. The stored commands count as carried out; only the commands
// before the first answer with the ID count for a repeated answer.
func (a *attacked) takes(request, id string, d *approval.Decision) (kind string, stores bool) {
	m, earlier := &a.model, inOrder(a.sent)
	if i := slices.IndexFunc(earlier, func(c stages.Command) bool { return c.ID == id }); i >= 0 {
		earlier = earlier[:i]
	}
	next := m.after(earlier, a.e.state.Now())
	switch {
	case !m.asks() || request != m.request():
		return "not found", false
	case m.heard[id] && m.hasGiven(d):
		a.saw("repeated", 1)
		return "nil", false
	case m.heard[id]:
		return "conflict", false
	case !next.asks():
		return "not found", false
	case d.Binding == approval.Binding{} && m.policy.RequireBinding:
		return "refused", false
	case d.Binding == approval.Binding{}:
		d.Binding = m.binding
	}
	if !next.allows(d, commands.Later(a.e.state.Now(), m.now)) {
		return "refused", false
	}
	i := slices.IndexFunc(a.sent, func(c stages.Command) bool { return c.ID == id })
	switch {
	case i < 0:
		return "nil", true
	case a.sent[i].Decision.Verdict == d.Verdict && cmp.Equal(a.sent[i].By, d.By) && a.sent[i].Decision.Comment == d.Comment:
		a.saw("repeated", 1)
		return "nil", false
	default:
		return "conflict", false
	}
}

// kindOf returns the kind of an error.
func kindOf(err error) string {
	var refused *approval.RefusedError
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, backend.ErrNotFound):
		return "not found"
	case errors.Is(err, backend.ErrConflict):
		return "conflict"
	case errors.As(err, &refused) && refused.Reason != "":
		return "refused"
	default:
		return err.Error()
	}
}
