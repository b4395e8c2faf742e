package runner

import (
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
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
// at once.
//
// Clocks that disagree by more than skew must neither keep a run from being
// taken over nor have it taken from an engine that is well. So a record that
// stood still for a lease and skew is free, whatever time is in it: its holder
// would have renewed it several times. And one that was seen to change is not
// free within a lease of that, even where the holder's clock is far behind.
func (s observation) until(l record.Lease, length, skew time.Duration) time.Time {
	if l.Holder == "" || l.Until == 0 {
		return time.Time{}
	}
	still := s.since.Add(length + skew)
	ended := l.Until.Time().Add(skew + time.Millisecond)
	if s.alive {
		if lives := s.since.Add(length); ended.Before(lives) {
			ended = lives
		}
	}
	if still.Before(ended) {
		return still
	}
	return ended
}
