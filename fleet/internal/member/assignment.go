package member

import (
	"context"
	"iter"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
)

// Assignment is a [backend.Assignment] with the parts that only the engine's own updater sees.
type Assignment struct {
	backend.Assignment
	// Stalled, if set, is called if a call about one object timed out although calls about the others
	// succeeded, see [Limiter].
	Stalled func()
	// secretKey is for values that must not be shown, see drift.Options.
	secretKey []byte
	// ofCheck reports that Placement belongs to a check; check is the revision of its object, nil
	// if that is removed.
	ofCheck bool
	check   *Revision
	// keeps reports that the update only restores the revision that the ledger proves, and stops if
	// the ledger proves another revision.
	keeps bool
}

// WithKey returns an assignment with the key of its placement, which a host's Updater does not get
// to see.
func WithKey(a backend.Assignment, key []byte) Assignment {
	return Assignment{Assignment: a, secretKey: key}
}

// WithCheck returns an assignment of a revision that is in no snapshot, see [Revision.CheckObject].
func WithCheck(a Assignment, rev *Revision) Assignment {
	a.Revision, a.check, a.ofCheck = rev.Digest, rev, true
	return a
}

// WithoutCheck returns an assignment that removes the check object of its placement, and the
// ledger.
func WithoutCheck(a backend.Assignment) Assignment {
	a.Revision, a.Final = "", true
	return Assignment{Assignment: a, ofCheck: true}
}

// shares reports whether other placements may apply the same objects.
func (a *Assignment) shares() bool { return a.AllowCoOwnership && !a.Exclusive }

// Updater is a [backend.Updater] inside of the engine: an [Applier], or a host's behind a guard,
// see [Guarded].
type Updater interface {
	Update(ctx context.Context, a Assignment) (backend.Proof, error)
	Observe(ctx context.Context, a Assignment) (backend.Proof, error)
}

// Watcher is an [Updater] that can tell when to observe, see [backend.UpdaterWatcher].
type Watcher interface {
	Updater
	Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error]
}

// Guarded puts a guard between the engine and a host's own updater.
func Guarded(u backend.Updater, g *guard.Guard) Updater {
	safe := updaterBehindGuard{u, g}
	if w, ok := u.(backend.UpdaterWatcher); ok {
		return watcherBehindGuard{safe, w}
	}
	return safe
}

type updaterBehindGuard struct {
	updater backend.Updater
	guard   *guard.Guard
}

// Update calls the host's Update behind the guard.
func (u updaterBehindGuard) Update(ctx context.Context, a Assignment) (backend.Proof, error) {
	return guard.Call(ctx, u.guard, "Updater", a.Cluster.Name, func(ctx context.Context) (backend.Proof, error) {
		return u.updater.Update(ctx, a.Assignment)
	})
}

// Observe calls the host's Observe behind the guard.
func (u updaterBehindGuard) Observe(ctx context.Context, a Assignment) (backend.Proof, error) {
	return guard.Call(ctx, u.guard, "Updater", a.Cluster.Name, func(ctx context.Context) (backend.Proof, error) {
		return u.updater.Observe(ctx, a.Assignment)
	})
}

type watcherBehindGuard struct {
	updaterBehindGuard
	watcher backend.UpdaterWatcher
}

// Watch calls the host's Watch behind the guard.
func (w watcherBehindGuard) Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error] {
	return guard.Stream(ctx, w.guard, "Updater", a.Cluster.Name, func(ctx context.Context) iter.Seq2[struct{}, error] {
		return w.watcher.Watch(ctx, a.Assignment)
	})
}
