package step

import (
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
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

// checkExpiry returns the expiry of the first check to expire, if the checks begin at from.
func checkExpiry(checks []check.Check, from stages.Instant) (first stages.Instant) {
	for i := range checks {
		if t := from.Add(checks[i].Lifetime()); first == 0 || t < first {
			first = t
		}
	}
	return first
}

// takeMeasurement records a measurement that was requested at the moment at. If endless is true,
// the check lasts as long as its stage and never ends.
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

// judge decides whether an endless check of a stage lets clusters start.
func judge(r *stages.CheckRun, c *check.Check) {
	switch {
	case r.Last == check.Successful:
		r.Bad = ""
	case r.Last == check.Failed, r.ErrorsInARow > c.ErrorLimit(), r.Last == check.Inconclusive && r.Inconclusive > c.InconclusiveLimit:
		r.Bad = r.Says()
	}
}

// allSuccessful reports whether all checks are Successful.
func allSuccessful(runs []stages.CheckRun) bool {
	return !slices.ContainsFunc(runs, func(r stages.CheckRun) bool { return r.Phase != check.Successful })
}

// failuresOf returns the number of failures that an endless check adds to the budget of its stage:
// its failures and its consecutive errors, both beyond their limits.
func failuresOf(r *stages.CheckRun, c *check.Check) int {
	return max(0, r.Failed-c.FailureLimit) + max(0, r.ErrorsInARow-c.ErrorLimit())
}

// blockingChecks names the checks of a stage that keep its clusters from starting, or returns "" if
// none does.
func blockingChecks(run *runstate.StageRun) string {
	if run.SkipGates {
		return ""
	}
	return stages.BadChecks(run.Checks)
}

// checkFailures returns the number of failed clusters that the checks of a stage count as.
func checkFailures(st *stages.PlannedStage, run *runstate.StageRun) (n int) {
	for i := range run.Checks {
		n += failuresOf(&run.Checks[i], &st.Checks[i])
	}
	return n
}

// isInconclusive reports whether one of the checks has ended as Inconclusive. Only its expiry or a
// person ends the wait for such a check.
func isInconclusive(checks []stages.CheckRun) bool {
	return slices.ContainsFunc(checks, func(r stages.CheckRun) bool { return r.Phase == check.Inconclusive })
}
