package simulate

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// The waits of package fleet's workers.
const (
	// reachFirst and reachMost are the shortest and the longest wait between attempts to reach an
	// unreachable cluster.
	reachFirst = 200 * time.Millisecond
	reachMost  = 5 * time.Second
	// healthyPause is the wait before the first observation of a cluster that was healthy after its
	// update.
	healthyPause = time.Second
)

// doing is a worker's next activity.
type doing uint8

const (
	calling   doing = iota // calls Update when it is due
	answering              // receives the answer of a call when it is due
	observing              // observes the cluster when it is due
	idling                 // does nothing any more
)

// worker is one attempt at one cluster, like a worker of package fleet.
type worker struct {
	pos     int
	cluster string
	attempt Attempt
	// sent reports whether something may have been sent to the cluster before.
	sent bool
	does doing
	due  time.Duration
	// answer is the result of the running call.
	answer stages.Observation
	// wait is the delay before the next attempt to reach the cluster; delay is the delay before
	// the first attempt.
	wait, delay time.Duration
	last        stages.Observation
	// gone reports whether it has nothing more to do, although the run may still need it.
	gone bool
	// round is the last step that needed it.
	round int
	// order breaks ties, place is the worker's index in the queue, or -1.
	order, place int
}

// work carries out the due activities and adds the worker's observations to observed.
func (w *worker) work(now time.Duration, observed []stages.Observation) []stages.Observation {
	for !w.gone && w.does != idling && w.due <= now {
		switch w.does {
		case calling:
			w.attempt = w.attempt.Reach(now)
			w.due, w.answer = w.attempt.Update(now)
			w.does = answering
		case answering:
			observed = w.receive(now, observed)
		default:
			observed = w.observe(now, observed)
		}
	}
	return observed
}

// receive handles the result of a call of Update, which is always passed on.
func (w *worker) receive(now time.Duration, observed []stages.Observation) []stages.Observation {
	o := w.answer
	o.Cluster = w.cluster
	o.Sent = o.Sent || w.sent
	w.sent, w.last = o.Sent, o
	switch {
	case o.Unreachable && w.sent:
		w.does, w.due = calling, now+w.backOff()
	case o.Unreachable || o.Failed:
		w.gone = true
	case o.Healthy:
		w.does, w.due, w.wait = observing, now+healthyPause, reachFirst
	default:
		w.does, w.due, w.wait = observing, now, reachFirst
	}
	return append(observed, o)
}

// observe observes the cluster, and passes on changes.
func (w *worker) observe(now time.Duration, observed []stages.Observation) []stages.Observation {
	o := w.attempt.Observe(now)
	o.Cluster = w.cluster
	if o.Unreachable {
		o.Sent = true
		w.due = now + w.backOff()
	} else {
		w.wait = reachFirst
		w.next(now)
	}
	if o == w.last {
		return observed
	}
	w.last = o
	return append(observed, o)
}

// next waits for the cluster to change.
func (w *worker) next(now time.Duration) {
	due, ok := w.attempt.Next(now)
	if !ok {
		w.does = idling
	}
	w.due = due
}

// backOff returns the wait before the next try and doubles it.
func (w *worker) backOff() time.Duration {
	d := w.wait
	w.wait = min(2*w.wait, reachMost)
	return d
}
