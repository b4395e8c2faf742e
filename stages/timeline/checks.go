package timeline

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// measured is how far a check of a stage that goes on is: its last event, and how many measurements before that came to
// Inconclusive. Measurements that come to the same as the one before are no events, and are counted by the next one.
type measured struct {
	number, inconclusive int
	last                 check.Phase
}

// said is what an event says of a check.
func said(e *stages.Event) string {
	result := e.Value
	if e.Message != "" {
		result = e.Message
	}
	return "check " + e.Check + " is " + e.Result + ": " + result
}

// delay is how long after its beginning a check is measured for the first time, at the least.
func delay(checks []check.Check, name string) time.Duration {
	if i := slices.IndexFunc(checks, func(c check.Check) bool { return c.Name == name }); i >= 0 {
		return max(checks[i].InitialDelay, time.Second)
	}
	return time.Second
}

// back calls do with the time a while ago, but not before a moment. No event says when measuring begins: it is known from
// when the first measurement is made.
func (r *recorder) back(by time.Duration, least time.Time, do func()) {
	now := r.at
	if r.at = now.Add(-by); r.at.Before(least) {
		r.at = least
	}
	do()
	r.at = now
}

// measuring records a measurement of a cluster.
func (r *recorder) measuring(x *planned, pos, attempt int, e *stages.Event) {
	t := &x.tracks[pos]
	if t.over {
		return
	}
	next := Segment{Kind: Measuring, Attempt: attempt}
	if t.now.Kind != Measuring {
		i := slices.IndexFunc(x.plan.Stages, func(st stages.PlannedStage) bool { return pos < st.End() })
		r.back(delay(x.plan.Stages[i].ClusterChecks, e.Check), t.now.From, func() {
			r.soaked(t, x.plan.Strategy.MinHealthy, e)
			r.becomes(t, next)
		})
	}
	if e.Result != string(check.Successful) {
		next.Message = said(e)
	}
	if next.Message != t.now.Message {
		r.becomes(t, next)
	}
}

// check records a measurement of a stage or a group: those of gates have an attempt.
func (r *recorder) check(x *planned, stage int, key gateKey, e *stages.Event) {
	key.what = "check " + e.Check
	st := &x.plan.Stages[stage]
	if e.Attempt == 0 {
		if i := slices.IndexFunc(st.Checks, func(c check.Check) bool { return c.Name == e.Check }); i >= 0 {
			key.group = -1
			r.holds(key, &st.Checks[i], e)
		}
		return
	}
	gates := st.Gates
	if key.group >= 0 {
		gates = st.Groups[key.group].Gates
	}
	if r.open[key] == nil {
		first := time.Second
		for i := range gates {
			first = max(first, delay(gates[i].Checks, e.Check))
		}
		r.back(first, r.t.Start, func() { r.begin(key, Segment{Kind: Checked, Attempt: e.Attempt}) })
	}
	r.open[key].Message = said(e)
	switch {
	case e.Type != stages.CheckEnded:
	case e.Result == string(check.Successful):
		r.end(key)
	default:
		r.ends(key, CheckFailed)
	}
}

// farthest is how long after a measurement a stage may be held because of it, at the most.
const farthest = 10 * 365 * 24 * time.Hour

// holds records a measurement of a stage that goes on. One that is bad holds the stage until one is Successful; one that is
// Inconclusive, or an Error, does so where it is one too many, which may be later: then no event says so.
func (r *recorder) holds(key gateKey, c *check.Check, e *stages.Event) {
	m := r.measured[key]
	if m.last == check.Inconclusive {
		m.inconclusive += e.Count - m.number
	}
	m.number, m.last = e.Count, check.Phase(e.Result)
	r.measured[key] = m
	more := 0
	switch m.last {
	case check.Successful:
		r.end(key)
		return
	case check.Inconclusive:
		more = max(c.InconclusiveLimit-m.inconclusive, 0)
	case check.Error:
		more = c.ErrorLimit()
	default:
	}
	if more > int(farthest/c.Every()) {
		return
	}
	from := r.at.Add(time.Duration(more) * c.Every())
	if s := r.open[key]; s == nil || s.From.After(from) {
		r.open[key] = &Segment{Kind: Held, From: from, Message: said(e)}
	}
}

// endChecks ends what the checks of a stage hold.
func (r *recorder) endChecks(x *planned, stage int) {
	for i := range x.plan.Stages[stage].Checks {
		r.end(gateKey{stage: x.first + stage, group: -1, what: "check " + x.plan.Stages[stage].Checks[i].Name})
	}
}
