package stages

import (
	"slices"
	"time"
)

// observe takes in what a cluster was seen to be.
func (s *stepper) observe(o *Observation) {
	pos, ok := s.p.Position(o.Cluster)
	if !ok || s.r.IsEnded() || s.r.State == Stopped {
		return
	}
	f := s.flight(pos)
	if f == nil || f.Attempt != o.Attempt || f.Phase == BackingOff {
		return
	}
	s.sent(f, o)
	if o.Released != "" {
		s.emitCluster(pos, Event{Type: ObjectsReleased, Attempt: f.Attempt, Message: cut(o.Released)})
	}
	if o.Unreachable && !f.Sent {
		s.pend(f, o)
		return
	}
	s.reached(f)
	switch {
	case o.Skipped && !f.Sent:
		s.leave(f, Skipped, o.Message)
	case o.Unreachable, o.Skipped:
		s.doubt(f)
		s.note(f, o.Message)
	case o.Failed:
		s.attemptFailed(f, o)
	default:
		s.progress(f, o)
	}
}

// doubt keeps a cluster of which nobody knows how it is from being done by
// time alone. Its soak goes on once it is proven healthy again.
func (s *stepper) doubt(f *Flight) {
	if f.Phase == Soaking {
		f.Phase = Settling
		s.changed = true
	}
}

// sent remembers that the member may have been changed, for all attempts that
// follow: what has begun to change a cluster keeps its slot.
func (s *stepper) sent(f *Flight, o *Observation) {
	if (o.Sent || o.Applied && !o.Unchanged) && !f.Sent {
		f.Sent = true
		s.changed = true
	}
}

// reached ends a series of tries to reach a cluster.
func (s *stepper) reached(f *Flight) {
	if f.Tries > 0 {
		f.Tries, f.Since = 0, 0
		s.changed = true
	}
}

// note keeps what a cluster in flight says, where that is new.
func (s *stepper) note(f *Flight, message string) {
	if m := cut(message); f.Message != m {
		f.Message = m
		s.changed = true
	}
}

// pend gives the slot of a cluster that was never reached to the next one,
// unless its time is up. When enough wait for a slot for that reason already,
// only one of those may take it.
func (s *stepper) pend(f *Flight, o *Observation) {
	next, full := -1, s.r.State == Running && s.unreached() >= maxYielded
	if full {
		next = s.dueUnreached(f.Pos)
	}
	if full && next < 0 || s.late(f, s.deadline()) {
		s.note(f, o.Message)
		return
	}
	news := f.Tries == 0 || cutAt(f.Message, maxYieldedMessage) != cutAt(o.Message, maxYieldedMessage)
	f.Message = cut(o.Message)
	f.Tries++
	s.yield(f, s.backoff(f.Tries), news)
	if next >= 0 {
		s.startAgain(next)
	}
}

// yield takes a cluster out of flight, to be started again; where that is
// news, it says so.
func (s *stepper) yield(f *Flight, wait time.Duration, news bool) {
	switch {
	case f.Drain:
		s.leave(f, Skipped, "skipped")
		return
	case s.r.Ending == Superseded:
		s.leave(f, Skipped, s.r.Reason)
		return
	}
	if f.Since == 0 {
		f.Since = s.now
	}
	y := Yielded{
		Pos: f.Pos, Attempt: f.Attempt, Sent: f.Sent, Tries: f.Tries, Since: f.Since,
		Started: f.Started, Spent: int64(s.now - f.Started), Message: cutAt(f.Message, maxYieldedMessage),
	}
	if wait > 0 {
		y.NotYet = s.now.Add(wait)
	}
	if news {
		s.emitCluster(f.Pos, Event{Type: ClusterPending, Attempt: f.Attempt, Message: f.Message, Until: y.NotYet.Time()})
	}
	s.free(f)
	s.r.Waiting = append(s.r.Waiting, y)
}

// attemptFailed decides whether a cluster is tried again.
func (s *stepper) attemptFailed(f *Flight, o *Observation) {
	f.Message = cut(o.Message)
	switch {
	case f.Drain:
		s.leave(f, Skipped, "skipped in flight; its last attempt failed: "+f.Message)
	case s.exhausted(f):
		s.leave(f, Failed, f.Message)
	case s.r.State == Stopping:
		s.ground(f)
	default:
		wait := s.backoff(f.Attempt)
		if o.Permanent {
			wait = s.maxBackoff()
		}
		f.Phase, f.Until = BackingOff, s.now.Add(wait)
		s.emitCluster(f.Pos, Event{Type: ClusterRetrying, Attempt: f.Attempt, Message: f.Message, Until: f.Until.Time()})
	}
}

func (s *stepper) exhausted(f *Flight) bool {
	n := attempts(&s.p.Strategy)
	return n > 0 && f.Attempt >= n
}

// progress moves a cluster on by what it proves.
func (s *stepper) progress(f *Flight, o *Observation) {
	// What an earlier attempt, or this one before a crash, has carried out is
	// not what the cluster had before the run.
	unchanged := o.Unchanged && f.Attempt == 1 && !f.Sent
	if f.Phase == Applying {
		if !o.Applied {
			s.note(f, o.Message)
			return
		}
		f.Phase, f.Message = Settling, ""
		s.changed = true
		if !unchanged {
			s.emitCluster(f.Pos, Event{Type: ClusterApplied, Attempt: f.Attempt})
		}
	}
	switch proven := s.proves(f, o); {
	case proven && (unchanged || s.p.Strategy.MinHealthy == 0 || s.p.Stages[s.r.Stage].Remove):
		s.complete(f, unchanged)
	case proven:
		s.soak(f)
	case f.Until != 0:
		f.Phase, f.Until = Settling, 0
		s.note(f, o.Message)
		s.emitCluster(f.Pos, Event{Type: ClusterUnhealthy, Attempt: f.Attempt, Message: f.Message})
	default:
		s.note(f, o.Message)
	}
}

// soak begins or goes on with the time that a cluster has to stay healthy.
func (s *stepper) soak(f *Flight) {
	if f.Phase == Soaking {
		return
	}
	if f.Until == 0 {
		f.Until = s.now.Add(s.p.Strategy.MinHealthy)
	}
	f.Phase, f.Message = Soaking, ""
	s.changed = true
}

// proves reports whether o proves the cluster to be where the plan wants it.
func (s *stepper) proves(f *Flight, o *Observation) bool {
	want := ""
	if r := s.p.Clusters[f.Pos].Revision; r >= 0 {
		want = s.p.Revisions[r]
	}
	return o.Revision == want && o.Current && o.Healthy
}

func (s *stepper) complete(f *Flight, unchanged bool) {
	pos, attempt := f.Pos, f.Attempt
	s.free(f)
	_, g := s.groupOf(pos)
	g.Completed++
	e := Event{Type: ClusterCompleted, Attempt: attempt, Unchanged: unchanged}
	if s.p.Stages[s.r.Stage].Remove {
		e.Type = ClusterRemoved
	}
	s.emitCluster(pos, e)
}

// leave takes a cluster out of flight for good. One that was to be skipped does
// not fail.
func (s *stepper) leave(f *Flight, state State, reason string) {
	pos, attempt, sent, drain := f.Pos, f.Attempt, f.Sent, f.Drain
	s.free(f)
	if state == Failed && !drain {
		s.recordFailed(pos, attempt, reason)
		return
	}
	e := skipped(pos, reason)
	e.Attempts, e.Sent = attempt, sent
	s.record(e)
}

// record counts a cluster that the run has come to as skipped.
func (s *stepper) record(e Exception) {
	_, g := s.groupOf(e.First)
	g.Skipped++
	s.except(e)
	s.emitCluster(e.First, Event{Type: ClusterSkipped, Message: cut(e.Reason)})
}

func (s *stepper) recordFailed(pos, attempt int, reason string) {
	_, g := s.groupOf(pos)
	g.Failed++
	s.except(Exception{First: pos, Last: pos, State: Failed, Attempts: attempt, Reason: reason})
	s.emitCluster(pos, Event{Type: ClusterFailed, Attempt: attempt, Message: cut(reason)})
	s.checkBudget()
}

// backoff is the wait after an attempt.
func (s *stepper) backoff(attempt int) time.Duration {
	d, limit := s.p.Strategy.Backoff, s.maxBackoff()
	if d <= 0 {
		d = time.Second
	}
	for i := 1; i < attempt && d < limit; i++ {
		d *= 2
	}
	return min(d, limit)
}

func (s *stepper) maxBackoff() time.Duration {
	if d := s.p.Strategy.MaxBackoff; d > 0 {
		return d
	}
	return max(time.Minute, s.p.Strategy.Backoff)
}

// attempts is how often a cluster is tried; 0 is without end.
func attempts(s *Strategy) int {
	switch {
	case s.Attempts > 0:
		return s.Attempts
	case s.Attempts < 0:
		return 0
	case s.Profile == ClusterUpdate:
		return 1
	case s.Profile == Workflow:
		return 11
	default:
		return 0
	}
}

// clocks takes in what time alone has changed for clusters in flight.
func (s *stepper) clocks() {
	if s.r.State != Running && s.r.State != Stopping {
		return
	}
	deadline := s.deadline()
	for i := 0; i < len(s.r.Flights); i++ {
		f := &s.r.Flights[i]
		switch {
		case f.Attempt == 0:
		case s.late(f, deadline):
			s.overdue(f, deadline)
		case f.Phase == Soaking && s.now >= f.Until:
			s.complete(f, false)
		}
	}
	s.timeouts()
	s.tryAgain()
	s.expireWaiting(deadline)
}

// tryAgain begins the attempts that are due, unless a deadline that has just
// passed ends the run.
func (s *stepper) tryAgain() {
	if s.r.State != Running {
		return
	}
	s.eachFlight(func(f *Flight) {
		if f.Phase == BackingOff && s.now >= f.Until {
			f.Attempt, f.Phase, f.Until = f.Attempt+1, Applying, 0
			s.changed = true
		}
	})
}

// late reports whether the deadline of a cluster has passed.
func (s *stepper) late(f *Flight, deadline time.Duration) bool {
	return deadline > 0 && s.now >= f.Started.Add(deadline)
}

// overdue gives a cluster up that has passed its deadline.
func (s *stepper) overdue(f *Flight, deadline time.Duration) {
	reason := "not done within " + deadline.String()
	if f.Message != "" {
		reason += ": " + f.Message
	}
	if s.p.Stages[s.r.Stage].Remove {
		s.leave(f, Skipped, reason)
		return
	}
	s.leave(f, Failed, reason)
}

// expireWaiting gives clusters up that could not be reached to be cleaned.
func (s *stepper) expireWaiting(deadline time.Duration) {
	if st, _, ok := s.stage(); !ok || !st.Remove || s.r.State != Running {
		return
	}
	for i, y := range slices.Backward(s.r.Waiting) {
		if s.now >= y.Started.Add(deadline) {
			s.unyield(i)
			s.record(skippedYielded(&y, "not cleaned within "+deadline.String()+": "+y.Message))
		}
	}
}
