package hub

import (
	"context"
	"reflect"
	"slices"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
)

// selections watch what placements select.
type selections struct {
	s  *service
	mu sync.Mutex
	// ctx is that of watch, nil before it runs.
	ctx   context.Context
	group sync.WaitGroup
	of    map[key]*selection
	// taken are the placements of which nothing has changed since a snapshot was
	// taken, as they were declared then.
	taken map[key]fleet.Placement
}

// selection is what one placement selects, as queries.
type selection struct {
	queries []snapshot.Query
	stop    context.CancelFunc
}

func newSelections(s *service) *selections {
	return &selections{s: s, of: map[key]*selection{}, taken: map[key]fleet.Placement{}}
}

// watch runs until ctx ends.
func (w *selections) watch(ctx context.Context) {
	w.mu.Lock()
	w.ctx = ctx
	for k, one := range w.of {
		w.start(k, one)
	}
	w.mu.Unlock()
	<-ctx.Done()
	w.group.Wait()
}

// put watches what a placement selects, in place of what it selected before.
func (w *selections) put(k key, queries []snapshot.Query) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.of[k]
	if before != nil && slices.Equal(before.queries, queries) {
		return
	}
	w.remove(k)
	one := &selection{queries: queries}
	w.of[k] = one
	if w.ctx != nil && w.ctx.Err() == nil {
		w.start(k, one)
	}
}

// drop forgets a placement.
func (w *selections) drop(k key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(k)
	delete(w.taken, k)
}

// mark tells that what a placement selects may have changed.
func (w *selections) mark(k key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taken, k)
}

// take tells whether a snapshot may have to be taken since the last take: what is
// selected has changed, or what is declared has. The caller takes it, or marks it
// again.
func (w *selections) take(k key, p fleet.Placement) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.taken[k]
	if ok && reflect.DeepEqual(before, p) {
		return false
	}
	w.taken[k] = p
	return true
}

func (w *selections) remove(k key) {
	if one := w.of[k]; one != nil && one.stop != nil {
		one.stop()
	}
	delete(w.of, k)
}

func (w *selections) start(k key, one *selection) {
	ctx, stop := context.WithCancel(w.ctx)
	one.stop = stop
	w.group.Go(func() {
		for ctx.Err() == nil {
			for _, err := range w.s.source.Watch(ctx, one.queries) {
				if err != nil {
					break
				}
				w.mark(k)
				w.s.placements.addAfter(k, w.s.cfg.Collect)
			}
			pause(ctx, retryWatch)
		}
	})
}

// watchInventory wakes everything that a change of the members concerns.
func (s *service) watchInventory(ctx context.Context) {
	for ctx.Err() == nil {
		for _, err := range backend.WatchInventory(ctx, s.cfg.Inventory, 0) {
			if err != nil {
				break
			}
			s.everyPlacement()
		}
		pause(ctx, retryWatch)
	}
}
