package driftwatch

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// watchLease is what an engine knows of the lease of a placement's watch.
type watchLease struct {
	// until is how long this engine has it, by the monotonic clock; zero where it never had it.
	until time.Time
	// other is the revision of a lease of another engine, and since when it has been that one.
	other backend.Revision
	since time.Time
}

// hold takes or renews the lease to watch the placement, and reports whether this engine has it.
func (w *placementWatch) hold(ctx context.Context) (bool, error) {
	r := w.r.reporter
	rec, err := r.store.Get(ctx, record.WatchKey(w.name))
	if err != nil && !state.IsNotFound(err) {
		return false, err
	}
	var now record.WatchLease
	if err == nil {
		err = record.Decode(rec, &now)
		if newer := (*stages.FormatError)(nil); errors.As(err, &newer) {
			return false, nil // an engine that is newer has it
		}
	}
	if err != nil {
		now = record.WatchLease{} // one that is missing or cannot be decoded belongs to no engine
	}
	if now.Holder != r.cfg.Name && !w.free(&now, rec.Revision) {
		return false, nil
	}
	began := time.Now()
	left := now.Until.Time().Sub(r.state.Now())
	if now.Holder == r.cfg.Name && left > r.cfg.Lease*3/4 && left <= r.cfg.Lease {
		w.lease.until = began.Add(left)
		return true, nil // it was renewed a moment ago
	}
	next := record.WatchLease{Format: record.Format, Holder: r.cfg.Name, Until: stages.At(r.state.Now()).Add(r.cfg.Lease)}
	_, err = r.store.Put(ctx, record.WatchKey(w.name), record.Encode(next), rec.Revision)
	if errors.Is(err, backend.ErrConflict) {
		return false, nil
	}
	if err == nil {
		w.lease.until = began.Add(r.cfg.Lease)
	}
	return err == nil, err
}

// free reports whether a lease of another engine is over, or has not been renewed for as long as it lasts,
// whatever time is in it.
func (w *placementWatch) free(now *record.WatchLease, rev backend.Revision) bool {
	r, l := w.r.reporter, &w.lease
	if l.other != rev {
		l.other, l.since = rev, time.Now()
	}
	return now.Holder == "" || r.state.Now().After(now.Until.Time().Add(r.cfg.Skew)) || time.Since(l.since) > r.cfg.Lease+r.cfg.Skew
}

// giveBack frees the lease if this engine has had it, also after ctx has ended.
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
