package inventory

import (
	"slices"
	"time"

	"github.com/slipway-dev/slipway/placement"
)

const (
	// heartbeatLasts is how old the last heartbeat of a cluster's agent may be, and
	// problemLasts how long a condition may say that it is not healthy, before it takes
	// nothing new. They are KubeFleet's.
	heartbeatLasts = 5 * time.Minute
	problemLasts   = 5 * time.Minute
	// measuredPause is the least time between two tidings of properties alone.
	measuredPause = 30 * time.Second
	// namespacesPause is how long other changes are waited for before namespaces are told of.
	namespacesPause = time.Second
)

// registration is what an object says of a cluster.
type registration struct {
	// told is what the inventory says of it.
	cluster placement.Cluster
	// problems are what its conditions say against its health, in the order in which
	// they are told.
	problems []problem
	// heartbeat is when the cluster's agent was last heard of; zero means that it
	// has none.
	heartbeat time.Time
}

// problem is why a cluster is not healthy from a time on; zero means that it always
// was.
type problem struct {
	why  string
	from time.Time
}

// at returns the registration as it is to be seen at a time.
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

// expires is when the registration is to be evaluated again; zero means never.
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

// recheck is when an inventory evaluates what it knows without a change. The zero value never does.
type recheck struct {
	timer *time.Timer
	next  time.Time
	// measured reports whether properties have changed and no watcher has received it, quiet is
	// until when none does.
	measured bool
	quiet    time.Time
	ended    bool
}

// schedule has evaluate called at a time or earlier; at zero, never.
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

// sooner returns the earlier of two times, of which a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
