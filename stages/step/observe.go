package step

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// maxUnreached limits the number of clusters that wait because they could not be reached. Beyond it
// such clusters keep their slots, so that an outage does not put the whole fleet into the run's
// record.
const maxUnreached = 256

// observer moves clusters in flight on, by observations and by time.
type observer struct {
	control
	start *starter
}

// observe applies an observation of a cluster.
func (ob observer) observe(o *stages.Observation) {
	pos, ok := ob.p.Position(o.Cluster)
	if !ok || ob.r.IsEnded() || ob.r.State == stages.Stopped {
		return
	}
	f := ob.r.form.At(pos)
	if f == nil || f.Attempt != o.Attempt || f.Phase == stages.BackingOff {
		return
	}
	// Once an attempt may have changed a cluster, the cluster keeps its slot over all later
	// attempts.
	if (o.Sent || o.Applied && !o.Unchanged) && !f.Sent {
		f.Sent = true
		ob.changed = true
	}
	if o.Released != "" {
		ob.emitCluster(pos, stages.Event{Type: stages.ObjectsReleased, Attempt: f.Attempt, Message: cut(o.Released)})
	}
	if o.Altered != "" {
		ob.emitCluster(pos, stages.Event{Type: stages.ObjectsAltered, Attempt: f.Attempt, Message: cut(o.Altered)})
	}
	switch {
	case o.Unreachable && f.MayHaveChanged():
		ob.silent(f, o)
		return
	case o.Unreachable:
		ob.unreachable(f, o)
		return
	}
	ob.reached(f)
	switch {
	case o.Skipped && !f.Sent:
		ob.leave(f, stages.Skipped, o.Message)
	case o.Skipped:
		ob.interruptSoak(f)
		ob.note(f, o.Message)
	case o.Failed:
		ob.attemptFailed(f, o)
	default:
		ob.progress(f, o)
	}
}

// note records a new message of a cluster in flight.
func (ob observer) note(f *runstate.InFlight, message string) {
	if m := cut(message); f.Message != m {
		f.Message = m
		ob.changed = true
	}
}

// unreachable passes the slot of a cluster that was never reached to the next cluster, unless its
// time is up. If maxUnreached clusters wait already, only one of those may take the slot.
func (ob observer) unreachable(f *runstate.InFlight, o *stages.Observation) {
	if f.Since == 0 {
		f.Since = ob.now
		ob.changed = true
	}
	limit := ob.reachLimit()
	end := f.Since.Add(limit)
	if limit > 0 && ob.now >= end && ob.r.State == stages.Running && !f.Drain {
		ob.failUnreached(f, notReached(limit, o.Message))
		return
	}
	unreached := 0
	for i := range ob.r.form.Waiting {
		if ob.r.form.Waiting[i].Tries > 0 {
			unreached++
		}
	}
	next, full := -1, ob.r.State == stages.Running && unreached >= maxUnreached
	if full {
		next = ob.start.dueUnreached(f.Pos)
	}
	if full && next < 0 || ob.late(f, timeLimit(ob.p, &ob.r)) {
		ob.interruptSoak(f)
		ob.note(f, o.Message)
		return
	}
	news := f.Tries == 0 || values.Cut(f.Message, maxRetryMessage) != values.Cut(o.Message, maxRetryMessage)
	f.Message = cut(o.Message)
	f.Tries++
	notYet := ob.now.Add(backoff(&ob.p.Strategy, f.Tries))
	if limit > 0 && end > ob.now {
		notYet = min(notYet, end)
	}
	ob.retryLater(f, notYet, news)
	if next >= 0 {
		ob.start.startAgain(next)
	}
}

// attemptFailed decides whether a cluster is retried.
func (ob observer) attemptFailed(f *runstate.InFlight, o *stages.Observation) {
	f.Message = cut(o.Message)
	most := ob.p.Strategy.AttemptLimit()
	switch {
	case f.Drain:
		ob.leave(f, stages.Skipped, "skipped in flight; its last attempt failed: "+f.Message)
	case most > 0 && f.Attempt >= most:
		ob.failCluster(f, f.Message)
	case ob.r.State == stages.Stopping:
		ob.ground(f)
	default:
		wait := backoff(&ob.p.Strategy, f.Attempt)
		if longest := maxBackoff(&ob.p.Strategy); o.Permanent && wait < longest {
			wait = longest
			after := "; permanent: tried again after " + wait.String()
			f.Message = values.Cut(o.Message, maxMessage-len(after)) + after
		}
		f.Enter(stages.BackingOff)
		f.NotYet = ob.now.Add(wait)
		ob.emitCluster(f.Pos, stages.Event{Type: stages.ClusterRetrying, Attempt: f.Attempt, Message: f.Message, Until: f.NotYet.Time()})
	}
}

// backoff returns the wait after an attempt.
func backoff(s *stages.Strategy, attempt int) time.Duration {
	wait, limit := s.Backoff.Duration, maxBackoff(s)
	if wait <= 0 {
		wait = time.Second
	}
	for i := 1; i < attempt && wait < limit; i++ {
		wait *= 2
	}
	return min(wait, limit)
}

func maxBackoff(s *stages.Strategy) time.Duration {
	if s.MaxBackoff.Duration > 0 {
		return s.MaxBackoff.Duration
	}
	return max(time.Minute, s.Backoff.Duration)
}

// progress moves a cluster on by its observed state.
func (ob observer) progress(f *runstate.InFlight, o *stages.Observation) {
	// A change by an earlier attempt, or by this attempt before a crash, counts as a change of the
	// run.
	unchanged := o.Unchanged && f.Attempt == 1 && !f.Sent
	if f.Phase == stages.Applying {
		if !o.Applied {
			ob.note(f, o.Message)
			return
		}
		f.Enter(stages.Settling)
		f.Message = ""
		ob.changed = true
		if !unchanged {
			ob.emitCluster(f.Pos, stages.Event{Type: stages.ClusterApplied, Attempt: f.Attempt})
		}
	}
	want, soak := "", ob.p.Strategy.MinHealthy.Duration
	if rev := ob.p.Clusters[f.Pos].Revision; rev >= 0 {
		want = ob.p.Revisions[rev]
	}
	switch proven := o.Revision == want && o.Current && o.Healthy; {
	case proven && (f.Phase == stages.Soaking || f.Phase == stages.Measuring):
	case proven && (unchanged || soak == 0 || f.Checks != nil || ob.p.Stages[ob.r.form.Stage].Remove):
		ob.healthy(f, unchanged)
	case proven:
		if f.SoakEnds == 0 {
			f.SoakEnds = ob.now.Add(soak)
		}
		f.Enter(stages.Soaking)
		f.Message = ""
		ob.changed = true
	case f.SoakEnds != 0 || f.Checks != nil:
		f.Enter(stages.Settling)
		f.SoakEnds, f.Checks = 0, nil
		ob.changed = true
		ob.note(f, o.Message)
		ob.emitCluster(f.Pos, stages.Event{Type: stages.ClusterUnhealthy, Attempt: f.Attempt, Message: f.Message})
	default:
		ob.note(f, o.Message)
	}
}

// healthy completes a cluster that is proven to be healthy, once its checks are Successful.
func (ob observer) healthy(f *runstate.InFlight, unchanged bool) {
	st := &ob.p.Stages[ob.r.form.Stage]
	if unchanged || len(st.ClusterChecks) == 0 || ob.r.form.Stages[ob.r.form.Stage].SkipGates {
		ob.complete(f, unchanged)
		return
	}
	ob.check(f, st.ClusterChecks)
}

// check starts or continues the checks of a healthy cluster.
func (ob observer) check(f *runstate.InFlight, planned []check.Check) {
	if f.Checks == nil {
		// If the query allows it, one request measures all clusters that are measured at the same
		// time.
		f.Checks = &runstate.ClusterCheckRun{Since: ob.now, Until: checkExpiry(planned, ob.now), Checks: newCheckRuns(planned, ob.now)}
		started := ob.r.form.Stages[ob.r.form.Stage].Started
		for i := range f.Checks.Checks {
			if planned[i].Object != "" {
				continue // each cluster has its own object
			}
			f.Checks.Checks[i].Next = onGrid(f.Checks.Checks[i].Next, started, planned[i].Every().Milliseconds())
		}
	}
	f.Enter(stages.Measuring)
	f.Message = ""
	ob.changed = true
}

// onGrid returns the first moment, not before t, that is a whole number of intervals after begin.
func onGrid(t, begin stages.Instant, interval int64) stages.Instant {
	if past := int64(t-begin) % interval; past > 0 {
		return t + stages.Instant(interval-past)
	}
	return t
}

// clocks applies the changes of clusters in flight that depend on time alone.
func (ob observer) clocks() {
	if ob.r.State != stages.Running && ob.r.State != stages.Stopping {
		return
	}
	deadline := timeLimit(ob.p, &ob.r)
	ob.eachInFlight(func(f *runstate.InFlight) {
		switch {
		case ob.late(f, deadline):
			ob.overdue(f, deadline)
		case f.Phase == stages.Soaking && ob.now >= f.SoakEnds:
			ob.healthy(f, false)
		case f.Phase == stages.Measuring && ob.now >= f.Checks.Until:
			ob.failCluster(f, "its checks have expired: "+stages.UnsuccessfulChecks(f.Checks.Checks))
		default:
			ob.giveUp(f)
		}
	})
	ob.timeouts()
	if ob.r.State != stages.Running { // a deadline that has just passed may have ended the run
		return
	}
	ob.eachInFlight(func(f *runstate.InFlight) {
		if f.Phase == stages.BackingOff && ob.now >= f.NotYet {
			f.Enter(stages.Applying)
			f.Attempt++
			ob.changed = true
		}
	})
	ob.expireWaiting(deadline)
}

// late reports whether the deadline of a cluster has passed.
func (ob observer) late(f *runstate.InFlight, deadline time.Duration) bool {
	return deadline > 0 && ob.now >= f.Started.Add(deadline)
}

// overdue ends the flight of a cluster that has passed its deadline.
func (ob observer) overdue(f *runstate.InFlight, deadline time.Duration) {
	reason := "not done within " + deadline.String()
	if f.Message != "" {
		reason += ": " + f.Message
	}
	if ob.p.Stages[ob.r.form.Stage].Remove {
		ob.leave(f, stages.Skipped, reason)
		return
	}
	ob.failCluster(f, reason)
}

// expireWaiting abandons clusters that could not be reached to be cleaned before the deadline.
func (ob observer) expireWaiting(deadline time.Duration) {
	if st, _, ok := ob.stage(); !ok || !st.Remove {
		return
	}
	for i, y := range slices.Backward(ob.r.form.Waiting) {
		if ob.now >= y.Started.Add(deadline) {
			ob.dropRetry(i)
			ob.recordSkipped(skippedRetry(&y, "not cleaned within "+deadline.String()+": "+y.Message))
		}
	}
}

// silent notes that a cluster that keeps its slot cannot be reached.
func (ob observer) silent(f *runstate.InFlight, o *stages.Observation) {
	if f.Since == 0 {
		f.Since = ob.now
		ob.changed = true
	}
	ob.interruptSoak(f)
	ob.note(f, o.Message)
}

// giveUp ends the flight of a cluster that keeps its slot and has been unreachable for too long: a
// skipped cluster after a retry's longest wait, and one of which a change is only assumed after
// UnreachableDeadline.
func (ob observer) giveUp(f *runstate.InFlight) {
	limit, assumed := ob.reachLimit(), f.Assumed && !f.Sent
	switch {
	case f.Since == 0 || !f.MayHaveChanged():
	case f.Drain && ob.now >= f.Since.Add(maxBackoff(&ob.p.Strategy)):
		ob.leave(f, stages.Skipped, "skipped in flight; it cannot be reached: "+f.Message)
	case assumed && limit > 0 && ob.r.State == stages.Running && ob.now >= f.Since.Add(limit):
		ob.failCluster(f, notReached(limit, f.Message))
	}
}

// wakeToGiveUp sets the alarm for giveUp.
func (d *draft) wakeToGiveUp(f *runstate.InFlight, w *alarm) {
	if f.Drain {
		w.at(f.Since.Add(maxBackoff(&d.p.Strategy)))
	}
	if limit := d.reachLimit(); limit > 0 && f.Assumed && !f.Sent {
		w.at(f.Since.Add(limit))
	}
}

// failUnreached fails a cluster that the run has neither reached nor changed.
func (ob observer) failUnreached(f *runstate.InFlight, reason string) {
	pos, attempt := f.Pos, f.Attempt
	ob.free(f)
	_, g := ob.groupOf(pos)
	g.Failed++
	ob.addUnsuccessful(runstate.Unsuccessful{First: pos, Last: pos, State: stages.Failed, Unreached: true, Attempts: attempt, Reason: reason})
	ob.emitCluster(pos, stages.Event{Type: stages.ClusterFailed, Attempt: attempt, Message: cut(reason)})
	ob.checkBudget()
}

// notReached is the reason why a cluster that could not be reached has failed.
func notReached(limit time.Duration, message string) string {
	return "not reached within " + limit.String() + ": " + message
}
