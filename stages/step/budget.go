package step

import (
	"fmt"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// failCluster takes a failed cluster out of flight, and ends the run if that exceeds the budget.
func (c control) failCluster(f *runstate.InFlight, reason string) {
	drain := f.Drain
	c.leave(f, stages.Failed, reason)
	if !drain {
		c.checkBudget()
	}
}

// checkBudget ends the run when more clusters have failed than the budget allows. A stop under way
// does not prevent it, unless the run retries the clusters when it is resumed.
func (c control) checkBudget() {
	stopping := c.r.State == stages.Stopping && c.r.Ending == stages.Stopped && !c.p.Strategy.Suspends()
	if c.r.State != stages.Running && !stopping {
		return
	}
	if st, run, ok := c.stage(); ok {
		if over := overBudget(st, run); over != "" {
			c.exceeded(over)
		}
	}
}

// checkUsedUp ends the run when a strict budget is used up, so that no remaining cluster may ever
// start, and reports whether it did.
func (c control) checkUsedUp(st *stages.PlannedStage, run *runstate.StageRun) bool {
	const format = "%s, which is all that may: no other can be started, and not all have been"
	passAllSkipped(c.draft, st, run)
	_, failed := run.Counts()
	failed += checkFailures(st, run)
	if st.Strict && failed >= st.MaxFailures && c.r.form.Flying() == 0 && !c.r.form.ClustersEnded(st, run) {
		c.exceeded(fmt.Sprintf(format, haveFailedWith(st, run)))
		return true
	}
	for i := range st.Groups {
		g, gr := &st.Groups[i], &run.Groups[i]
		if g.Strict && gr.Failed >= g.MaxFailures && !c.r.form.FlyingOf(g) && !c.r.form.MembersEnded(g, gr) {
			c.exceeded(fmt.Sprintf(format, haveFailed(gr.Failed, "group "+g.Name+" of stage "+st.Name)))
			return true
		}
	}
	return false
}

// overBudget returns which budget of a stage is exceeded, or "".
func overBudget(st *stages.PlannedStage, run *runstate.StageRun) string {
	if _, failed := run.Counts(); st.MaxFailures >= 0 && failed+checkFailures(st, run) > st.MaxFailures {
		return haveFailedWith(st, run) + mayFail(st.MaxFailures)
	}
	for i := range run.Groups {
		if g, n := &st.Groups[i], run.Groups[i].Failed; g.MaxFailures >= 0 && n > g.MaxFailures {
			return haveFailed(n, "group "+g.Name+" of stage "+st.Name) + mayFail(g.MaxFailures)
		}
	}
	return ""
}

// haveFailedWith describes how many clusters of a stage have failed, and which of its checks.
func haveFailedWith(st *stages.PlannedStage, run *runstate.StageRun) (out string) {
	_, failed := run.Counts()
	if failed > 0 || checkFailures(st, run) == 0 {
		out = haveFailed(failed, "stage "+st.Name)
	}
	for i := range run.Checks {
		n := failuresOf(&run.Checks[i], &st.Checks[i])
		if n == 0 {
			continue
		}
		if out != "" {
			out += ", and "
		}
		out += fmt.Sprintf("check %s of stage %s was bad %d times beyond its limit (%s)", run.Checks[i].Name, st.Name, n, run.Checks[i].Bad)
	}
	return out
}

// haveFailed describes how many clusters have failed.
func haveFailed(n int, where string) string {
	if n == 1 {
		return "1 cluster of " + where + " has failed"
	}
	return fmt.Sprintf("%d clusters of %s have failed", n, where)
}

// mayFail completes that sentence with the number that may fail.
func mayFail(n int) string {
	if n == 0 {
		return ", and none may"
	}
	return fmt.Sprintf(", and %d may", n)
}

// exceeded ends the run because a budget or a timeout is exceeded. A workflow that suspends is
// stopped; every other run fails.
func (c control) exceeded(reason string) {
	if c.r.form.Closing == nil {
		undone := c.requestRollback(stages.RollbackRequest{Cause: stages.BudgetExceeded, Message: reason})
		if c.p.Strategy.Suspends() && !undone {
			c.r.form.StopAt = c.now.Add(c.grace())
			c.windDown(stages.Stopped, reason, "")
			return
		}
	}
	c.fail(reason)
}
