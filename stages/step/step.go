package step

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Step advances the run r of the plan p by the input and returns the new run, the actions to
// carry out now, and the events that happened. It is level-triggered: it returns an action for
// as long as the action is needed, so that a driver that dies between saving and acting loses
// nothing, and another step is always safe. It does not change r or p, and may be called
// concurrently.
//
// If the run does not belong to the plan, see [Run.Check], Ready has the unchanged run and
// Err and nothing else: no action, no event and no time to wake. A run that lost a part of its
// data in a store fails this check too.
//
// The cost of a step grows with the clusters in flight and the unsuccessful ones, not with the
// fleet.
func Step(p *stages.Plan, r Run, in stages.Input) Ready {
	if err := r.Check(p); err != nil {
		return Ready{Run: r, Err: err}
	}
	return step(p, r, in)
}

// step is Step for a run that belongs to the plan. It processes the inputs in order: each part sees
// the changes of the parts before it. Each part uses only the parts above it:
//
//	draft     the new run, its events, and the account of its clusters:
//	          draft.go, clusters.go, unsuccessful.go, cursor.go, domains.go
//	gates     when the tasks of a stage or a group open and let the run pass
//	skipping  how clusters, groups and stages are skipped
//	starter   which clusters start, by caps, windows and turn: starter.go, windows.go,
//	          picker.go
//	control   whether the run continues, and how it ends: budget.go, timeouts.go,
//	          approvals.go, checks.go, always.go, ending.go
//	observer  what clusters in flight prove, when they are retried or abandoned
//	commands  requests of operators and their refusal: command.go, retry.go,
//	          allowed.go
//	course    whose turn it is among the stages and groups: advance.go
func step(p *stages.Plan, r Run, in stages.Input) Ready {
	d := newDraft(p, r, in.Now)
	run := control{d}
	start := &starter{draft: d, calendar: in.Calendar, slots: in.Slots}
	orders := commands{control: run, blocked: in.Blocked}
	clusters := observer{control: run, start: start}
	turns := course{control: run, start: start, blocked: in.Blocked}
	if in.Unwatched {
		d.eachInFlight(d.unwatched)
	}
	if in.NewCalendar {
		start.recheck()
	}
	for _, cmd := range in.Commands {
		orders.command(cmd)
	}
	for _, name := range in.Gone {
		skipping{d, values.HasLeft}.gone(name)
	}
	for i := range in.Observations {
		clusters.observe(&in.Observations[i])
	}
	run.answers(in.Answers)
	run.measured(in.Measured)
	run.expireChecks()
	clusters.clocks()
	for turns.advance() {
	}
	wants := start.wants()
	d.tidy()
	return Ready{
		Run: d.r, Wants: wants, Events: d.events, Changed: d.changed,
		Actions: actions(d), Wake: wake(d, start.capEnds).Time(),
	}
}

// actions returns the actions for the clusters in flight, and the open requests.
func actions(d *draft) []stages.Action {
	if d.r.State != stages.Running && d.r.State != stages.Stopping {
		return nil
	}
	out, n := make([]stages.Action, len(d.r.form.InFlight)), 0
	for i := range d.r.form.InFlight {
		f := &d.r.form.InFlight[i]
		if f.Attempt == 0 || f.Phase == stages.BackingOff {
			continue
		}
		a, c := &out[n], &d.p.Clusters[f.Pos]
		a.Type, a.Pos, a.Cluster, a.UID, a.Attempt, a.Sent = stages.Apply, f.Pos, c.Name, c.UID, f.Attempt, f.Sent
		if c.Revision < 0 {
			a.Type = stages.Remove
		} else {
			a.Revision = d.p.Revisions[c.Revision]
			if f.Phase != stages.Applying {
				a.Type = stages.Observe
			}
		}
		n++
	}
	out = out[:n]
	if d.r.State == stages.Running {
		for _, req := range gatesOf(d).requests() {
			out = append(out, stages.Action{Type: stages.Ask, Attempt: req.Attempt, Request: &req})
		}
	}
	return append(out, questions(d)...)
}

// wake returns the earliest moment at which time alone changes the run. capEnds is the end of a
// window with clusters that only the cap keeps from starting.
func wake(d *draft, capEnds stages.Instant) stages.Instant {
	if d.r.State != stages.Running && d.r.State != stages.Stopping {
		return 0
	}
	w := alarm{now: d.now}
	w.at(d.r.form.StopAt)
	deadline := timeLimit(d.p, &d.r)
	for i := range d.r.form.InFlight {
		if f := &d.r.form.InFlight[i]; f.Attempt != 0 {
			w.at(f.SoakEnds)
			w.at(f.NotYet)
			if deadline > 0 {
				w.at(f.Started.Add(deadline))
			}
			if f.Since != 0 && f.MayHaveChanged() {
				d.wakeToGiveUp(f, &w)
			}
		}
	}
	nextMeasurement(d, &w)
	st, run, ok := d.stage()
	if d.r.State == stages.Stopping || !ok {
		return w.first
	}
	w.at(capEnds)
	w.at(run.Deadline)
	for i := range d.r.form.Waiting {
		y := &d.r.form.Waiting[i]
		w.at(y.NotYet)
		if st.Remove {
			w.at(y.Started.Add(deadline))
		}
	}
	for i := range run.Groups {
		gr := &run.Groups[i]
		w.at(gr.Deadline)
		for j := range gr.Deferred {
			w.at(gr.Deferred[j].NotYet)
		}
	}
	for _, g := range gatesOf(d).open {
		w.at(g.Until)
	}
	return w.first
}

// Ready is the outcome of a step: save Run and Events, then do Actions, then
// step again at Wake or when there is input.
type Ready struct {
	Run     Run
	Actions []stages.Action
	Events  []stages.Event
	// Wake is when to step again without any input; zero means only on input.
	Wake time.Time
	// Wants is the number of clusters that would be in flight now without the Cap of the strategy;
	// 0 if the strategy names no cap.
	Wants int
	// Changed reports whether Run differs from the input run in more than its clock. If so,
	// it must be saved before Actions are carried out.
	Changed bool
	// Err is a [*RunError] if the run does not belong to the plan. Then nothing was done,
	// Run is unchanged and every other field is empty. Another step will not help.
	Err error
}
