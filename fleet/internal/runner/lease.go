package runner

import (
	"sync/atomic"
	"time"
)

// lease is a driver's lease of its run. A save of the run's record renews it, and the engine's
// session may extend it between saves.
type lease struct {
	// key is the key of the run's record.
	key     string
	length  time.Duration
	session session
	// began is the start of the lease in the record. renewed is the time of the last renewal, by a
	// save or by the session.
	began, renewed time.Time
	// due reports whether the lease must be saved.
	due bool
	// beat is the time when the driver last finished a turn without an error, initially when it
	// took the run.
	beat atomic.Pointer[time.Time]
	// yields reports whether the run must be released so that another engine can take it.
	yields atomic.Bool
}

// newLease returns the lease of a run that has just been taken, by a save that began at a time.
func newLease(key string, length time.Duration, s session, began time.Time) *lease {
	l := &lease{key: key, length: length, session: s, began: began}
	l.renewed = time.Now()
	l.turned()
	return l
}

// check requests a save if a third of the lease has passed since it was renewed, unless the session
// extends it and the last save of the run was the driver's own.
func (l *lease) check(own bool) {
	now := time.Now()
	if now.Before(l.next()) {
		return
	}
	var until time.Time
	if l.session != nil {
		until = l.session.CoversUntil(l.key, l.began)
	}
	left := until.Sub(now)
	if left <= 0 || !own {
		l.due = true
		return
	}
	// The next check is at the latest when the session no longer covers the lease.
	l.renewed = now.Add(min(0, left-l.length/3))
}

// saved notes a save of the run's record that began at a time.
func (l *lease) saved(began time.Time) {
	l.due, l.renewed, l.began = false, time.Now(), began
}

// next returns the time of the next check.
func (l *lease) next() time.Time { return l.renewed.Add(l.length / 3) }

// turned notes that a turn has succeeded.
func (l *lease) turned() {
	now := time.Now()
	l.beat.Store(&now)
}

// hangs reports whether no turn has succeeded for two thirds of the lease. It may be called
// concurrently.
func (l *lease) hangs() bool { return time.Since(*l.beat.Load()) > l.length*2/3 }
