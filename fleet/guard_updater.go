package fleet

import (
	"context"
	"iter"
)

// guardedUpdater puts the guard between the engine and a host's own updater.
func guardedUpdater(u Updater, g *guard) Updater {
	safe := updaterBehindGuard{u, g}
	if w, ok := u.(Watcher); ok {
		return watcherBehindGuard{safe, w}
	}
	return safe
}

type updaterBehindGuard struct {
	Updater
	guard *guard
}

// Update calls the host's.
func (u updaterBehindGuard) Update(ctx context.Context, a Assignment) (Report, error) {
	return call(ctx, u.guard, "Updater", a.Cluster.Name, func(ctx context.Context) (Report, error) {
		return u.Updater.Update(ctx, a)
	})
}

// Observe calls the host's.
func (u updaterBehindGuard) Observe(ctx context.Context, a Assignment) (Report, error) {
	return call(ctx, u.guard, "Updater", a.Cluster.Name, func(ctx context.Context) (Report, error) {
		return u.Updater.Observe(ctx, a)
	})
}

type watcherBehindGuard struct {
	updaterBehindGuard
	watcher Watcher
}

// Watch calls the host's.
func (w watcherBehindGuard) Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error] {
	return guardStream(ctx, w.guard, "Updater", a.Cluster.Name, func(ctx context.Context) iter.Seq2[struct{}, error] {
		return w.watcher.Watch(ctx, a)
	})
}
