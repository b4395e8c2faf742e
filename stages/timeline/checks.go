package timeline

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// measured is the progress of a check of an active stage: its last event, and how many earlier
// measurements were Inconclusive. A measurement with the same result as the one before is no
// event; the next event counts it.
type measured struct {
	number, inconclusive int
	last                 check.Phase
}

// said describes the result of a check in an event.
func said(e *stages.Event) string {
	result := e.Value
	if e.Message != "" {
		result = e.Message
	}
	return "check " + e.Check + " is " + e.Result + ": " + result
}

// delay returns the least time between the beginning of a check and its first measurement.
func delay(checks []check.Check, name string) time.Duration {
	if i := slices.IndexFunc(checks, func(c check.Check) bool { return c.Name == name }); i >= 0 {
		return max(checks[i].InitialDelay.Duration, time.Second)
	}
	return time.Second
}

// back calls do with the time set back by a duration, but not before a moment. No event reports
// the beginning of measuring; it follows from the time of the first measurement.
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
			r.soaked(t, x.plan.Strategy.MinHealthy.Duration, e)
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

// check records a measurement of a stage or a group: measurements of gates have an attempt.
func (r *recorder) check(x *planned, stage int, key gateKey, e *stages.Event) {
	key.item = "check " + e.Check
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

// farthest is the longest time after a measurement for which it may hold a stage.
const farthest = 10 * 365 * 24 * time.Hour

// holds records a measurement of an active stage. A bad result holds the stage until a result is
// Successful. An Inconclusive result or an Error holds it only beyond the limit, which may be
// passed later without an event.
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
		r.open[key] = &Segment{Kind: HeldByCheck, From: from, Message: said(e)}
	}
}

// endChecks ends the segments in which checks hold a stage.
func (r *recorder) endChecks(x *planned, stage int) {
	for i := range x.plan.Stages[stage].Checks {
		r.end(gateKey{stage: x.first + stage, group: -1, item: "check " + x.plan.Stages[stage].Checks[i].Name})
	}
}
