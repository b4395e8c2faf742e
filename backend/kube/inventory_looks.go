package kube

import (
	"time"

	"github.com/slipway-dev/slipway/placement"
)

const (
	// heartbeatLasts is how old the last heartbeat of a cluster's agent may be. It is
	// KubeFleet's.
	heartbeatLasts = 5 * time.Minute
	// measuredPause is the least time between two tidings of properties alone.
	measuredPause = 30 * time.Second
)

// registration is what an object says of a cluster.
type registration struct {
	// told is what the inventory says of it, healthy whether the object says so.
	told    placement.Cluster
	healthy bool
	// heartbeat is when the cluster's agent was last heard of; zero means that it
	// has none.
	heartbeat time.Time
}

// at returns the registration as it is to be seen at a time.
func (r registration) at(now time.Time) registration {
	switch {
	case !r.healthy:
	case r.isLate(now):
		r.told.Unhealthy = "its agent was last heard of more than " + heartbeatLasts.String() + " ago"
	default:
		r.told.Unhealthy = ""
	}
	return r
}

func (r registration) isLate(now time.Time) bool {
	return !r.heartbeat.IsZero() && now.Sub(r.heartbeat) > heartbeatLasts
}

// expires is when the registration is to be looked at again; zero means never.
func (r registration) expires(now time.Time) time.Time {
	if r.heartbeat.IsZero() || r.isLate(now) {
		return time.Time{}
	}
	return r.heartbeat.Add(heartbeatLasts + time.Millisecond)
}

// looks is when an inventory is to look at what it knows without being told of
// anything. The zero value never does.
type looks struct {
	timer *time.Timer
	next  time.Time
	// measured tells that properties have changed that nobody was told of, quiet is
	// until when nobody is.
	measured bool
	quiet    time.Time
	ended    bool
}

// by sees to it that there is a look at a time or earlier; at zero, never.
func (l *looks) by(now, at time.Time, look func()) {
	if l.ended || at.IsZero() || !l.next.IsZero() && !at.Before(l.next) {
		return
	}
	l.stop()
	l.next = at
	l.timer = time.AfterFunc(max(0, at.Sub(now)), look)
}

// stop forgets when the next look is.
func (l *looks) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer, l.next = nil, time.Time{}
}

// end ends the looks.
func (l *looks) end() {
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
