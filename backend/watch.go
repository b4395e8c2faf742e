package backend

import (
	"context"
	"errors"
	"iter"
	"maps"
	"time"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Watch yields the changes under prefix, like [Watcher.Watch]. If the store is no Watcher, Watch
// lists it every poll and compares the list with the previous list; while nothing changes, the
// interval grows up to ten times poll. A poll that is not positive means one second.
//
// Polling keeps the key and the revision of every record under prefix, does
// not see a key that is created and deleted between two polls, and ends with
// the first error of the store.
func Watch(ctx context.Context, s Store, prefix string, poll time.Duration) iter.Seq2[Change, error] {
	if w, ok := s.(Watcher); ok {
		return w.Watch(ctx, prefix)
	}
	return func(yield func(Change, error) bool) {
		p := storePoll{store: s, prefix: prefix, known: map[string]Revision{}}
		for pause := newPauses(poll); ; {
			more, changed, err := p.round(ctx, yield)
			if !more {
				return
			}
			if err == nil {
				err = pause.wait(ctx, changed)
			}
			if err != nil {
				yield(Change{}, ended(ctx, err))
				return
			}
		}
	}
}

// storePoll compares a store with its previous list.
type storePoll struct {
	store  Store
	prefix string
	known  map[string]Revision
}

// round yields the changes since the last round; more reports whether the
// consumer continues.
func (p *storePoll) round(ctx context.Context, yield func(Change, error) bool) (more, changed bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, false, err
	}
	missing := maps.Clone(p.known)
	for r, err := range p.store.List(ctx, p.prefix) {
		if err != nil {
			return true, changed, err
		}
		delete(missing, r.Key)
		if p.known[r.Key] == r.Revision {
			continue
		}
		p.known[r.Key], changed = r.Revision, true
		if !yield(Change{Key: r.Key, Revision: r.Revision}, nil) {
			return false, true, nil
		}
	}
	for key := range missing {
		change, err := p.recheck(ctx, key)
		if err != nil {
			return true, changed, err
		}
		if change.Key == "" {
			continue
		}
		changed = true
		if !yield(change, nil) {
			return false, true, nil
		}
	}
	return true, changed, nil
}

// recheck reads a key that was not listed, because a list may miss a key that is written during the
// call. It returns no Change for an unchanged record.
func (p *storePoll) recheck(ctx context.Context, key string) (Change, error) {
	r, err := p.store.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		delete(p.known, key)
		return Change{Key: key, Deleted: true}, nil
	}
	if err != nil || r.Revision == p.known[key] {
		return Change{}, err
	}
	p.known[key] = r.Revision
	return Change{Key: key, Revision: r.Revision}, nil
}

// WatchConn reports that objects in ids may have changed, as [ConnWatcher] says. For a connection
// that is no ConnWatcher it yields at the beginning and then after poll, with a growing interval up
// to ten times poll; the caller compares the objects. A poll that is not positive means one second.
func WatchConn(ctx context.Context, c Conn, ids []snapshot.ID, poll time.Duration) iter.Seq2[struct{}, error] {
	if w, ok := c.(ConnWatcher); ok {
		return w.Watch(ctx, ids)
	}
	return func(yield func(struct{}, error) bool) {
		err := ctx.Err()
		for pause := newPauses(poll); err == nil; err = pause.wait(ctx, false) {
			if !yield(struct{}{}, nil) {
				return
			}
		}
		yield(struct{}{}, ended(ctx, err))
	}
}

// WatchInventory reports that the inventory changed, as [InventoryWatcher] says.
// An inventory that is no InventoryWatcher is listed every poll and compared;
// while nothing changes, the interval grows up to ten times poll. A poll that
// is not positive means one second. Polling ends with the first error of the
// inventory.
func WatchInventory(ctx context.Context, inv Inventory, poll time.Duration) iter.Seq2[struct{}, error] {
	if w, ok := inv.(InventoryWatcher); ok {
		return w.WatchClusters(ctx)
	}
	return func(yield func(struct{}, error) bool) {
		var before map[string]placement.Cluster
		for pause := newPauses(poll); ; {
			now, err := clusters(ctx, inv)
			changed := err == nil && (before == nil || !maps.EqualFunc(before, now, placement.Cluster.Equal))
			if changed && !yield(struct{}{}, nil) {
				return
			}
			before = now
			if err == nil {
				err = pause.wait(ctx, changed)
			}
			if err != nil {
				yield(struct{}{}, ended(ctx, err))
				return
			}
		}
	}
}

// clusters returns the inventory by name, never nil without an error.
func clusters(ctx context.Context, inv Inventory) (map[string]placement.Cluster, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := map[string]placement.Cluster{}
	for c, err := range inv.Clusters(ctx) {
		if err != nil {
			return nil, err
		}
		out[c.Name] = c.Clone()
	}
	return out, nil
}

// ended returns the error that ends a watch: the error of ctx if ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// pauses are the intervals of a poll: they double while nothing changes, up to
// ten times the first.
type pauses struct {
	first, next time.Duration
}

func newPauses(poll time.Duration) *pauses {
	if poll <= 0 {
		poll = time.Second
	}
	return &pauses{first: poll, next: poll}
}

// wait pauses until the next poll is due or ctx ends.
func (p *pauses) wait(ctx context.Context, changed bool) error {
	if changed {
		p.next = p.first
	}
	t := time.NewTimer(p.next)
	defer t.Stop()
	p.next = min(2*p.next, 10*p.first)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
