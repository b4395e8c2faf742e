package step

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Limits that a strategy does not set.
const (
	// maxRetryMessage limits the messages of clusters that wait, in bytes.
	maxRetryMessage = 80
	// removalDeadline is the default of Removal.Deadline.
	removalDeadline = 5 * time.Minute
)

// eachInFlight calls do for every cluster in flight; do may end the flight.
func (d *draft) eachInFlight(do func(*runstate.InFlight)) {
	for i := 0; i < len(d.r.form.InFlight); i++ {
		if f := &d.r.form.InFlight[i]; f.Attempt != 0 {
			do(f)
		}
	}
}

// take puts a cluster in flight into the first free slot.
func (d *draft) take(f runstate.InFlight) {
	d.changed = true
	d.domains.count(d.p.Clusters[f.Pos].Cell, 1)
	for i := range d.r.form.InFlight {
		if d.r.form.InFlight[i].Attempt == 0 {
			d.r.form.InFlight[i] = f
			return
		}
	}
	d.r.form.InFlight = append(d.r.form.InFlight, f)
}

// free releases the slot of f and drops the free slots at the end of the list.
func (d *draft) free(f *runstate.InFlight) {
	d.domains.count(d.p.Clusters[f.Pos].Cell, -1)
	*f = runstate.InFlight{}
	d.changed = true
	n := len(d.r.form.InFlight)
	for n > 0 && d.r.form.InFlight[n-1].Attempt == 0 {
		n--
	}
	d.r.form.InFlight = d.r.form.InFlight[:n]
}

// interruptSoak interrupts the soak of a cluster whose state is unknown: time alone must not
// complete it. The soak continues once the cluster is proven healthy again.
func (d *draft) interruptSoak(f *runstate.InFlight) {
	if f.Phase == stages.Soaking || f.Phase == stages.Measuring {
		f.Enter(stages.Settling)
		d.changed = true
	}
}

// unwatched records that a cluster in flight may have changed: an attempt that began may have
// changed it before the driver ended without a report.
func (d *draft) unwatched(f *runstate.InFlight) {
	d.interruptSoak(f)
	if f.Attempt != 0 && f.Phase == stages.Applying && !f.MayHaveChanged() {
		f.Assumed = true
		d.changed = true
	}
}

// reached ends a series of attempts to reach a cluster.
func (d *draft) reached(f *runstate.InFlight) {
	if f.Tries > 0 || f.Since != 0 {
		f.Tries, f.Since = 0, 0
		d.changed = true
	}
}

// complete takes a proven cluster out of flight.
func (d *draft) complete(f *runstate.InFlight, unchanged bool) {
	pos, attempt := f.Pos, f.Attempt
	d.free(f)
	_, g := d.groupOf(pos)
	g.Completed++
	e := stages.Event{Type: stages.ClusterCompleted, Attempt: attempt, Unchanged: unchanged}
	if d.p.Stages[d.r.form.Stage].Remove {
		e.Type = stages.ClusterRemoved
	}
	d.emitCluster(pos, e)
}

// leave takes a cluster out of flight for good, as Skipped or Failed. A cluster with a pending skip
// does not fail. [control.failCluster] decides whether a failure exceeds the budget.
func (d *draft) leave(f *runstate.InFlight, state stages.State, reason string) {
	pos, attempt, sent, drain := f.Pos, f.Attempt, f.MayHaveChanged(), f.Drain
	d.free(f)
	if state == stages.Failed && !drain {
		_, g := d.groupOf(pos)
		g.Failed++
		d.addUnsuccessful(runstate.Unsuccessful{First: pos, Last: pos, State: stages.Failed, Attempts: attempt, Reason: reason})
		d.emitCluster(pos, stages.Event{Type: stages.ClusterFailed, Attempt: attempt, Message: cut(reason)})
		return
	}
	e := skipped(pos, reason)
	e.Attempts, e.Sent = attempt, sent
	d.recordSkipped(e)
}

// abandon takes a cluster out of flight for good, as Skipped or Failed, when the run ends. An apply
// that is under way may still change the cluster although nothing was reported as sent.
func (d *draft) abandon(f *runstate.InFlight, state stages.State, reason string) {
	f.Sent = f.Sent || f.Phase == stages.Applying
	d.leave(f, state, reason)
}

// recordSkipped counts a cluster that the run has reached as skipped.
func (d *draft) recordSkipped(e runstate.Unsuccessful) {
	_, g := d.groupOf(e.First)
	g.Skipped++
	d.addUnsuccessful(e)
	d.emitCluster(e.First, stages.Event{Type: stages.ClusterSkipped, Message: cut(e.Reason)})
}

func skipped(pos int, reason string) runstate.Unsuccessful {
	return runstate.Unsuccessful{First: pos, Last: pos, State: stages.Skipped, Reason: reason}
}

// skipAhead records that clusters which the run has not reached are skipped.
func (d *draft) skipAhead(e runstate.Unsuccessful) {
	n := d.addUnsuccessful(e)
	if n == 0 {
		return
	}
	ev := stages.Event{Type: stages.ClusterSkipped, Message: cut(e.Reason)}
	if e.First == e.Last {
		d.emitCluster(e.First, ev)
		return
	}
	ev.Stage, ev.Group = namesAt(d.p, e.First)
	ev.Count = n
	d.emit(ev)
}

// retryLater takes a cluster out of flight, to be started again from notYet on, and emits an event
// if news is true. A cluster that must not be started again is skipped.
func (d *draft) retryLater(f *runstate.InFlight, notYet stages.Instant, news bool) {
	switch {
	case f.Drain:
		d.leave(f, stages.Skipped, "skipped")
		return
	case d.r.Ending == stages.Superseded:
		d.leave(f, stages.Skipped, d.r.Reason)
		return
	}
	if f.Since == 0 {
		f.Since = d.now
	}
	y := runstate.Retrying{
		Pos: f.Pos, Attempt: f.Attempt, Sent: f.MayHaveChanged(), Tries: f.Tries, Since: f.Since, NotYet: notYet,
		Started: f.Started, Spent: int64(d.now - f.Started), Message: values.Cut(f.Message, maxRetryMessage),
	}
	if news {
		d.emitCluster(f.Pos, stages.Event{Type: stages.ClusterPending, Attempt: f.Attempt, Message: f.Message, Until: y.NotYet.Time()})
	}
	d.free(f)
	d.r.form.Waiting = append(d.r.form.Waiting, y)
}

// retrying returns the index in Waiting of the cluster at pos, or -1.
func (d *draft) retrying(pos int) int {
	return slices.IndexFunc(d.r.form.Waiting, func(y runstate.Retrying) bool { return y.Pos == pos })
}

// dropRetry removes the cluster at index i from Waiting.
func (d *draft) dropRetry(i int) {
	d.r.form.Waiting = slices.Delete(d.r.form.Waiting, i, i+1)
	d.changed = true
}

// skippedRetry returns the unsuccessful range of a cluster in Waiting. If the cluster could not be
// reached, its next attempt has begun and counts.
func skippedRetry(y *runstate.Retrying, reason string) runstate.Unsuccessful {
	e := skipped(y.Pos, reason)
	e.Attempts, e.Sent = y.Attempt-1, y.Sent
	if y.Tries > 0 {
		e.Attempts++
	}
	return e
}

// dropWaiting skips the clusters in Waiting.
func (d *draft) dropWaiting(reason string) {
	waiting := d.r.form.Waiting
	d.r.form.Waiting = nil
	for _, y := range waiting {
		d.recordSkipped(skippedRetry(&y, reason))
	}
}

// undefer removes the cluster at pos from the deferred ones, and reports whether it was one.
func (d *draft) undefer(pos int) bool {
	found := d.r.deferredAt(d.p, pos)
	if found == nil {
		return false
	}
	r := *found
	_, gr := d.groupOf(pos)
	i := slices.Index(gr.Deferred, r)
	var rest []runstate.Deferred
	if r.First < pos {
		rest = append(rest, r.Spanning(r.First, pos-1))
	}
	if pos < r.Last {
		rest = append(rest, r.Spanning(pos+1, r.Last))
	}
	gr.Deferred = slices.Replace(gr.Deferred, i, i+1, rest...)
	d.changed = true
	return true
}

// timeLimit returns the time limit of a cluster of the current stage; 0 means none.
func timeLimit(p *stages.Plan, r *Run) time.Duration {
	if r.form.Stage >= len(p.Stages) || !p.Stages[r.form.Stage].Remove {
		return p.Strategy.ProgressDeadline.Duration
	}
	if limit := p.Strategy.Removal.Deadline.Duration; limit > 0 {
		return limit
	}
	return removalDeadline
}

// reachLimit returns for how long a cluster of the current stage may be unreachable; 0 for ever.
func (d *draft) reachLimit() time.Duration {
	if st, _, ok := d.stage(); !ok || st.Remove {
		return 0
	}
	return d.p.Strategy.UnreachableDeadline.Duration
}
