package placements

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/snapshot"
)

// selections watch what placements select.
type selections struct {
	s  *Reconciler
	mu sync.Mutex
	// begin runs what it is given until that is stopped or watch ends; nil while
	// watch does not run.
	begin func(func(context.Context)) context.CancelFunc
	of    map[api.Key]*selection
	// taken are the placements of which nothing has changed since a snapshot was
	// taken, as they were declared then.
	taken map[api.Key]fleet.Placement
}

// selection is what one placement selects, as queries.
type selection struct {
	queries []snapshot.Query
	stop    context.CancelFunc
}

func newSelections(s *Reconciler) *selections {
	return &selections{s: s, of: map[api.Key]*selection{}, taken: map[api.Key]fleet.Placement{}}
}

// watch runs until ctx ends.
func (w *selections) watch(ctx context.Context) {
	var group sync.WaitGroup
	w.mu.Lock()
	w.begin = func(work func(context.Context)) context.CancelFunc {
		ctx, stop := context.WithCancel(ctx)
		group.Go(func() { work(ctx) })
		return stop
	}
	for k, one := range w.of {
		w.start(k, one)
	}
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	w.begin = nil
	w.mu.Unlock()
	group.Wait()
}

// put watches what a placement selects, in place of what it selected before.
func (w *selections) put(k api.Key, queries []snapshot.Query) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.of[k]
	if before != nil && slices.Equal(before.queries, queries) {
		return
	}
	w.remove(k)
	one := &selection{queries: queries}
	w.of[k] = one
	if w.begin != nil {
		w.start(k, one)
	}
}

// drop forgets a placement.
func (w *selections) drop(k api.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remove(k)
	delete(w.taken, k)
}

// mark reports that what a placement selects may have changed.
func (w *selections) mark(k api.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taken, k)
}

// take reports whether a snapshot may have to be taken since the last take: what is
// selected has changed, or what is declared has. The caller takes it, or marks it
// again.
func (w *selections) take(k api.Key, p fleet.Placement) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.taken[k]
	if ok && reflect.DeepEqual(before, p) {
		return false
	}
	w.taken[k] = p
	return true
}

func (w *selections) remove(k api.Key) {
	if one := w.of[k]; one != nil && one.stop != nil {
		one.stop()
	}
	delete(w.of, k)
}

// start watches what a placement selects. Where that cannot be watched, for example
// since a kind was defined that the hub may not read, snapshots are tried again and
// again instead, and their error tells why: otherwise the placement would look up to date.
func (w *selections) start(k api.Key, one *selection) {
	one.stop = w.begin(func(ctx context.Context) {
		for again := backoff.New(time.Second, captureAgain).Spread(); ctx.Err() == nil; again.Wait(ctx) {
			for _, err := range w.s.Source.Watch(ctx, one.queries) {
				if ctx.Err() != nil {
					return
				}
				w.mark(k)
				w.s.Queues.Placements.AddAfter(k, w.s.Collect)
				if err != nil {
					break
				}
				again.Reset()
			}
		}
	})
}
