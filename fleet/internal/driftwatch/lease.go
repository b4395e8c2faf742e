package driftwatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// watchLease is an engine's knowledge of the lease of a placement's watch.
type watchLease struct {
	// until is when this engine's lease ends, by the monotonic clock; zero if it never had the lease.
	until time.Time
	// other is the revision of another engine's lease. since is the time at which this engine
	// first read that revision.
	other backend.Revision
	since time.Time
	// written is the revision that this engine last wrote or confirmed; nil if it does not have the
	// lease.
	written atomic.Pointer[backend.Revision]
	// saved is when this engine saved the lease, or read that it has the lease.
	saved time.Time
	// beat is when this engine last held or extended the lease.
	beat atomic.Pointer[time.Time]
}

// Sessions give access to the sessions of engines, which extend their leases.
type Sessions interface {
	// Covers reports whether the session of this engine extends the lease in the record of a key,
	// without interruption since the lease was saved.
	Covers(key string, saved time.Time) bool
	// LeasedUntil returns until when the session of another engine extends a lease, or the zero
	// time if it does not.
	LeasedUntil(ctx context.Context, holder, leased string) (time.Time, error)
	// Wake makes the session of this engine begin.
	Wake()
}

// LeaseChanged enqueues a watched placement if this engine did not write the record of its lease.
// It may be called before Run and while it runs.
func (r *Reconciler) LeaseChanged(_ context.Context, c backend.Change) {
	w := r.watch(strings.TrimPrefix(c.Key, record.WatchKey("")))
	if w == nil {
		return
	}
	if written := w.lease.written.Load(); c.Deleted || written == nil || *written != c.Revision {
		r.look(w)
	}
}

// Holds reports whether this engine holds the lease of any watch.
func (r *Reconciler) Holds() bool {
	return slices.ContainsFunc(r.all(), func(w *placementWatch) bool { return w.lease.written.Load() != nil })
}

// Lapsed returns the keys of the leases that this engine holds and has not extended for two thirds
// of a lease, because a reconcile hangs or fails. The session of the engine must not extend them.
func (r *Reconciler) Lapsed() (out []string) {
	for _, w := range r.all() {
		beat := w.lease.beat.Load()
		if w.lease.written.Load() != nil && beat != nil && time.Since(*beat) > r.reporter.cfg.Lease*2/3 {
			out = append(out, record.WatchKey(w.name))
		}
	}
	return out
}

// extend relies on the engine's session to extend the lease, and reports whether the session does
// that.
func (w *placementWatch) extend() bool {
	if w.lease.written.Load() == nil || !w.r.sessions.Covers(record.WatchKey(w.name), w.lease.saved) {
		return false
	}
	now := time.Now()
	w.lease.until = now.Add(w.r.reporter.cfg.Lease / 3)
	w.lease.beat.Store(&now)
	return true
}

// hold acquires or renews the lease of the placement's watch, and reports whether this engine has
// it.
func (w *placementWatch) hold(ctx context.Context) (bool, error) {
	held, err := w.tryHold(ctx)
	if now := time.Now(); held {
		w.lease.beat.Store(&now)
	}
	if !held && err == nil {
		w.lease.written.Store(nil)
	}
	return held, err
}

func (w *placementWatch) tryHold(ctx context.Context) (bool, error) {
	r, read := w.r.reporter, time.Now()
	rec, err := r.store.Get(ctx, record.WatchKey(w.name))
	if err != nil && !state.IsNotFound(err) {
		return false, err
	}
	var now record.WatchLease
	if err == nil {
		err = record.Decode(rec, &now)
		if newer := (*versioned.FormatError)(nil); errors.As(err, &newer) {
			return false, nil // a newer engine has it
		}
	}
	if err != nil {
		now = record.WatchLease{} // a missing or damaged lease belongs to no engine
	}
	if now.Holder != r.cfg.Name {
		if free, err := w.free(ctx, &now, rec.Revision); !free || err != nil {
			return false, err
		}
	}
	began := time.Now()
	left := now.Until.Time().Sub(r.state.Now())
	if now.Holder == r.cfg.Name && left > r.cfg.Lease*3/4 && left <= r.cfg.Lease {
		w.lease.until = began.Add(left)
		w.lease.written.Store(&rec.Revision)
		w.lease.saved = read
		return true, nil // it was renewed recently
	}
	if now.Holder == r.cfg.Name {
		w.lease.saved = read
		if w.extend() {
			return true, nil
		}
	}
	next := record.WatchLease{Format: record.Format, Holder: r.cfg.Name, Until: stages.At(r.state.Now()).Add(r.cfg.Lease)}
	rev, err := r.store.Put(ctx, record.WatchKey(w.name), record.Encode(next), rec.Revision)
	if errors.Is(err, backend.ErrConflict) {
		return false, nil
	}
	if err == nil {
		w.lease.until, w.lease.saved = began.Add(r.cfg.Lease), began
		w.lease.written.Store(&rev)
		w.r.sessions.Wake()
	}
	return err == nil, err
}

// free reports whether another engine's lease is over. A lease is over if it has expired, or if it
// was not renewed for its whole duration, even if it states a later time. It is not over while the
// session of that engine extends it. A lease without a holder is free.
func (w *placementWatch) free(ctx context.Context, now *record.WatchLease, rev backend.Revision) (bool, error) {
	r, l := w.r.reporter, &w.lease
	if l.other != rev {
		l.other, l.since = rev, time.Now()
	}
	if now.Holder == "" {
		return true, nil
	}
	if !r.state.Now().After(now.Until.Time().Add(r.cfg.Skew)) && time.Since(l.since) <= r.cfg.Lease+r.cfg.Skew {
		return false, nil
	}
	until, err := w.r.sessions.LeasedUntil(ctx, now.Holder, record.WatchKey(w.name))
	return err == nil && time.Now().After(until), err
}

// giveBack deletes the lease if this engine has held it, even if ctx has ended.
func (w *placementWatch) giveBack(ctx context.Context) {
	if w.lease.until.IsZero() {
		return
	}
	r := w.r.reporter
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.CallTimeout)
	defer cancel()
	rec, err := r.store.Get(ctx, record.WatchKey(w.name))
	var now record.WatchLease
	if err == nil && record.Decode(rec, &now) == nil && now.Holder == r.cfg.Name {
		record.Discard(ctx, r.store, []backend.Write{record.Delete(rec.Key, rec.Revision)})
	}
}
