package runner

import (
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// observation is what this process knows of the lease of a run that another engine has.
type observation struct {
	revision backend.Revision
	// since is when the revision was read first; alive reports whether it replaced
	// another one.
	since time.Time
	alive bool
	// settled is before when the run is not read again, where this engine has just ended its driver; idle reports
	// whether it needs no engine at this revision, unless a command comes.
	settled time.Time
	idle    bool
	// news counts the changes and commands of which a watch told: what was read before the last of them is old.
	news int
}

// observeLocked takes down the revision that the record of a run has now.
func (r *Runner) observeLocked(name string, rev backend.Revision) observation {
	o, known := r.observed[name]
	if o.revision != rev {
		o = observation{revision: rev, since: time.Now(), alive: known && o.revision != "", settled: o.settled, news: o.news}
		r.observed[name] = o
	}
	return o
}

// until returns when the lease of another engine may be taken, by what was observed of it; the zero time is
// at once. The session of its holder may extend it.
func (s observation) until(l record.Lease, length, skew time.Duration) time.Time {
	if l.Holder == "" || l.Until == 0 {
		return time.Time{}
	}
	return state.FreeFrom(l.Until.Time(), s.since, s.alive, length, skew)
}
