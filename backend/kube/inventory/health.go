package inventory

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/placement"
)

const (
	// heartbeatLasts is the greatest age of the last heartbeat of a cluster's agent, and
	// problemLasts how long a condition may report an unhealthy cluster, before the cluster accepts
	// nothing new. Both are KubeFleet's.
	heartbeatLasts = 5 * time.Minute
	problemLasts   = 5 * time.Minute
	// measuredPause is the least time between two announcements of properties alone.
	measuredPause = 30 * time.Second
	// namespacesPause is the time that an announcement of namespaces waits for other changes.
	namespacesPause = time.Second
)

// registration is the data of an object about its cluster.
type registration struct {
	// cluster is the cluster as the inventory reports it.
	cluster placement.Cluster
	// problems are the conditions against the cluster's health, the first to report first.
	problems []problem
	// heartbeat is the time of the last heartbeat of the cluster's agent; zero means that it has
	// none.
	heartbeat time.Time
}

// problem is a reason why a cluster is unhealthy from a time on; zero means always.
type problem struct {
	why  string
	from time.Time
}

// at returns the registration with the cluster's health at a time.
func (r registration) at(now time.Time) registration {
	r.cluster.Unhealthy = ""
	if i := slices.IndexFunc(r.problems, func(a problem) bool { return !a.from.After(now) }); i >= 0 {
		r.cluster.Unhealthy = r.problems[i].why
	} else if r.isLate(now) {
		r.cluster.Unhealthy = "its agent was last heard of more than " + heartbeatLasts.String() + " ago"
	}
	return r
}

func (r registration) isLate(now time.Time) bool {
	return !r.heartbeat.IsZero() && now.Sub(r.heartbeat) > heartbeatLasts
}

// expires returns when the registration must be evaluated again; zero means never.
func (r registration) expires(now time.Time) (next time.Time) {
	for _, a := range r.problems {
		if a.from.After(now) {
			next = sooner(next, a.from)
		}
	}
	if r.heartbeat.IsZero() || r.isLate(now) {
		return next
	}
	return sooner(next, r.heartbeat.Add(heartbeatLasts+time.Millisecond))
}

// recheck is when an inventory evaluates its clusters without a change. The zero value never
// does.
type recheck struct {
	timer *time.Timer
	next  time.Time
	// measured reports whether properties have changed without an announcement. quiet is the time
	// before which properties alone are not announced.
	measured bool
	quiet    time.Time
	ended    bool
}

// schedule arranges that evaluate is called at a time or earlier; zero means never.
func (l *recheck) schedule(now, at time.Time, evaluate func()) {
	if l.ended || at.IsZero() || !l.next.IsZero() && !at.Before(l.next) {
		return
	}
	l.stop()
	l.next = at
	l.timer = time.AfterFunc(max(0, at.Sub(now)), evaluate)
}

// stop forgets the next evaluation.
func (l *recheck) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.next = nil, time.Time{}
}

// end stops it for good.
func (l *recheck) end() {
	l.stop()
	l.ended = true
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner returns the earlier of two times; a zero time means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
