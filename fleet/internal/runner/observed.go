package runner

import (
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// observation is this process's knowledge of the lease of a run that another engine drives.
type observation struct {
	revision backend.Revision
	// since is the time when the revision was first read. alive reports whether it replaced another
	// revision.
	since time.Time
	alive bool
	// settled is the earliest time to read the run again after this engine has ended its driver.
	// idle reports whether the run needs no engine at this revision unless a command comes.
	settled time.Time
	idle    bool
	// news counts the changes and commands that a watch reported. A read from before the last of
	// them is outdated.
	news int
}

// observeLocked records the current revision of a run's record and returns the observation. The
// caller must hold r.mu.
func (r *Runner) observeLocked(name string, rev backend.Revision) observation {
	o, known := r.observed[name]
	if o.revision != rev {
		o = observation{revision: rev, since: time.Now(), alive: known && o.revision != "", settled: o.settled, news: o.news}
		r.observed[name] = o
	}
	return o
}

// until returns the time when another engine's lease is free according to the observation; the zero
// time means at once. The session of the holder may extend the lease.
func (s observation) until(l record.Lease, length, skew time.Duration) time.Time {
	if l.Holder == "" || l.Until == 0 {
		return time.Time{}
	}
	return state.FreeFrom(l.Until.Time(), s.since, s.alive, length, skew)
}
