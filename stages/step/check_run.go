package step

import (
	"slices"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// newCheckRuns returns the runs of checks that begin at a moment.
func newCheckRuns(checks []check.Check, from stages.Instant) []stages.CheckRun {
	if len(checks) == 0 {
		return nil
	}
	out := make([]stages.CheckRun, len(checks))
	for i := range checks {
		out[i] = stages.CheckRun{Name: checks[i].Name, Phase: check.Running, Next: from.Add(checks[i].Delay())}
	}
	return out
}

// checkExpiry is when the first of checks that begin at a moment expires.
func checkExpiry(checks []check.Check, from stages.Instant) (first stages.Instant) {
	for i := range checks {
		if t := from.Add(checks[i].Lifetime()); first == 0 || t < first {
			first = t
		}
	}
	return first
}

// takeMeasurement takes in a measurement that was asked for at a moment. endless reports whether the check goes on for as long as its
// stage does: such a one does not end.
func takeMeasurement(r *stages.CheckRun, c *check.Check, m check.Measurement, at, now stages.Instant, endless bool) {
	r.Number++
	r.Last, r.Value, r.Message, r.At = m.Phase, m.Value, m.Message, at
	if m.Phase == check.Error {
		r.Errors++
		r.ErrorsInARow++
	} else {
		r.ErrorsInARow = 0
	}
	switch m.Phase {
	case check.Successful:
		r.Successful++
	case check.Failed:
		r.Failed++
	case check.Inconclusive:
		r.Inconclusive++
	default:
	}
	r.Next = now.Add(c.Every())
	if endless {
		judge(r, c)
		return
	}
	switch {
	case r.Failed > c.FailureLimit:
		r.Phase, r.Next = check.Failed, 0
	case r.ErrorsInARow > c.ErrorLimit():
		r.Phase, r.Next = check.Error, 0
	case r.Inconclusive > c.InconclusiveLimit:
		r.Phase, r.Next = check.Inconclusive, 0
	case r.Successful >= c.Needed():
		r.Phase = check.Successful
		if m.Phase == check.Successful {
			r.Next = 0
		}
	}
}

// judge decides whether a check of a stage that goes on lets clusters start.
func judge(r *stages.CheckRun, c *check.Check) {
	switch {
	case r.Last == check.Successful:
		r.Bad = ""
	case r.Last == check.Failed, r.ErrorsInARow > c.ErrorLimit(), r.Last == check.Inconclusive && r.Inconclusive > c.InconclusiveLimit:
		r.Bad = r.Says()
	}
}

// allSuccessful reports whether all are.
func allSuccessful(runs []stages.CheckRun) bool {
	return !slices.ContainsFunc(runs, func(r stages.CheckRun) bool { return r.Phase != check.Successful })
}

// failuresOf is how often a check of a stage that goes on counts in the budget of the stage: so often it has Failed, and could
// not be measured, beyond what may be.
func failuresOf(r *stages.CheckRun, c *check.Check) int {
	return max(0, r.Failed-c.FailureLimit) + max(0, r.ErrorsInARow-c.ErrorLimit())
}
