package step

import (
	"cmp"
	"slices"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// retry queues the failed or skipped clusters of the current stage again, and continues a run that
// has stopped or failed.
func (c commands) retry(cmd stages.Command) {
	if c.r.State == stages.Stopped || c.r.State == stages.Failed {
		c.resume(cmd)
	}
	n := c.requeue(cmd.Only)
	c.emit(stages.Event{Type: stages.RunRetried, By: cmd.By.Name, Count: n, Message: cmd.Only.Words()})
}

// unretriable returns why there is nothing to retry, or "".
func (c commands) unretriable(only stages.Only) string {
	st, run, ok := c.stage()
	switch {
	case c.r.State == stages.NotStarted:
		return "the run has not started"
	case c.r.State == stages.Stopping:
		return "clusters are in flight; retry when it is Stopped or Failed"
	case c.r.State == stages.Failed && c.blocked != "":
		return "run " + c.blocked + " has the placement; retry when that has ended"
	case c.r.form.Closing != nil:
		return "the run is " + string(c.r.form.Closing.State) + " but for what runs always: start another one"
	case only != "" && only != stages.OnlyFailed && only != stages.OnlySkipped:
		return "cannot retry only what is " + string(only) + ": it is " + string(stages.OnlyFailed) + ", " + string(stages.OnlySkipped) + " or empty"
	case !ok:
		return "all stages are done: a catch-up run takes the clusters that failed or were skipped"
	case run.SkipGates:
		return "stage " + st.Name + " was skipped as a whole: a catch-up run takes its clusters"
	}
	if again, _ := c.retriable(only); !slices.ContainsFunc(again, func(e runstate.Unsuccessful) bool { return !e.Gone }) {
		return "stage " + st.Name + " has no " + only.Words() + " to be tried again: a catch-up run takes those of other stages"
	}
	if over := overBudget(st, run); over != "" && only == stages.OnlySkipped {
		return over + ": retry those too, or skip them"
	}
	return ""
}

// retriable divides the unsuccessful clusters. again has the clusters of the current stage that
// the argument only selects, one range per group; rest has the others. again includes failed
// clusters that have left the inventory: requeue does not retry them, and their failures no longer
// count.
func (c commands) retriable(only stages.Only) (again, rest []runstate.Unsuccessful) {
	st := &c.p.Stages[c.r.form.Stage]
	first, last := st.Groups[0].First, st.End()-1
	for _, e := range c.r.form.Unsuccessful {
		if e.Last < first || e.First > last || e.Gone && e.State == stages.Skipped || only != "" && string(only) != string(e.State) {
			rest = append(rest, e)
			continue
		}
		if e.First < first {
			rest = append(rest, e.Spanning(e.First, first-1))
		}
		for i := range st.Groups {
			g := &st.Groups[i]
			if a, b := max(e.First, g.First), min(e.Last, g.First+g.Len-1); a <= b {
				again = append(again, e.Spanning(a, b))
			}
		}
		if e.Last > last {
			rest = append(rest, e.Spanning(last+1, e.Last))
		}
	}
	return again, rest
}

// requeue queues the failed or skipped clusters of the current stage that the argument only
// selects, and returns their number.
func (c commands) requeue(only stages.Only) (n int) {
	_, run, ok := c.stage()
	if !ok {
		return 0
	}
	again, rest := c.retriable(only)
	if len(again) == 0 {
		return 0
	}
	c.r.form.Unsuccessful = rest
	c.changed = true
	for _, e := range again {
		if e.Gone {
			_, gr := c.groupOf(e.First)
			// It is skipped instead: its failure no longer counts.
			gone := e.Last - e.First + 1
			gr.Failed -= gone
			gr.Skipped += gone
			e.State, e.Sent, e.Unreached, e.Reason = stages.Skipped, !e.Unreached, false, values.HasLeft
			c.addUnsuccessful(e)
			for pos := e.First; pos <= e.Last; pos++ {
				c.emitCluster(pos, stages.Event{Type: stages.ClusterSkipped, Message: values.HasLeft})
			}
			continue
		}
		n += e.Last - e.First + 1
		if len(run.Groups) == 0 {
			continue
		}
		_, gr := c.groupOf(e.First)
		// The run reaches the other clusters by itself.
		begun := func(pos int) bool { return !c.beyond(pos) }
		eachRun(e.First, e.Last, begun, func(first, last int) { c.requeueRange(gr, e.Spanning(first, last)) })
		c.reopen(e.First)
	}
	return n
}

// requeueRange makes ended clusters pending again.
func (c commands) requeueRange(gr *runstate.GroupRun, e runstate.Unsuccessful) {
	n := e.Last - e.First + 1
	if e.State == stages.Failed {
		gr.Failed -= n
	} else {
		gr.Skipped -= n
	}
	if e.State == stages.Skipped && e.Attempts == 0 {
		r := runstate.Deferred{First: e.First, Last: e.Last, NotYet: c.now}
		i, _ := slices.BinarySearchFunc(gr.Deferred, r.First, func(p runstate.Deferred, pos int) int { return cmp.Compare(p.First, pos) })
		if i == 0 || !gr.Deferred[i-1].Join(r, c.now) {
			gr.Deferred = slices.Insert(gr.Deferred, i, r)
		}
		return
	}
	// The run does not record which failed clusters were changed, so each may have been.
	y := runstate.Retrying{Attempt: e.Attempts + 1, Sent: e.Sent || e.State == stages.Failed && !e.Unreached}
	if st, _, _ := c.stage(); st.Remove {
		y.Started = c.now
	}
	for y.Pos = e.First; y.Pos <= e.Last; y.Pos++ {
		c.r.form.Waiting = append(c.r.form.Waiting, y)
	}
}

// reopen reopens the stage and the group of pos, with the gates after them.
func (c commands) reopen(pos int) {
	_, run, _ := c.stage()
	run.Done = 0
	run.Gates = reopen(run.Gates)
	_, gr := c.groupOf(pos)
	gr.Done, gr.Ended, gr.SkipGates = 0, 0, false
	unskip(gr.Gates)
	gr.Gates = reopen(gr.Gates)
	c.changed = true
}
