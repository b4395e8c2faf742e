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

// selections watches the selected objects of placements.
type selections struct {
	s  *Reconciler
	mu sync.Mutex
	// begin starts work that runs until the returned function is called or watch ends. It is nil
	// while watch is not running.
	begin func(func(context.Context)) context.CancelFunc
	of    map[api.Key]*selection
	// taken holds the declaration of each placement at the time of its last snapshot.
	taken map[api.Key]fleet.Placement
	// changed holds the time of the first change of a selected object since that snapshot.
	changed map[api.Key]time.Time
}

// selection holds the queries of one placement.
type selection struct {
	queries []snapshot.Query
	stop    context.CancelFunc
}

func newSelections(s *Reconciler) *selections {
	return &selections{s: s, of: map[api.Key]*selection{}, taken: map[api.Key]fleet.Placement{}, changed: map[api.Key]time.Time{}}
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

// put watches the queries of a placement and stops watching its former queries.
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
	delete(w.changed, k)
}

// mark makes the next take return true.
func (w *selections) mark(k api.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taken, k)
}

// change records that a selected object has changed, and adds the placement to its queue after
// the time during which changes are collected.
func (w *selections) change(k api.Key) {
	w.mu.Lock()
	if _, ok := w.changed[k]; !ok {
		w.changed[k] = time.Now()
	}
	w.mu.Unlock()
	w.s.Queues.Placements.AddAfter(k, w.s.Collect)
}

// take reports whether a snapshot must be taken: because the declaration differs from the one at
// the last take, or because a selected object changed and the collection time is over. A caller
// that cannot take the snapshot must call mark.
//
// Until the collection time is over, take returns false. Otherwise a reconcile for another reason,
// such as a run that takes its own snapshot, would read all selected objects a second time. take
// then enqueues the placement again, because this reconcile may have replaced the one that
// [selections.change] planned.
func (w *selections) take(k api.Key, p fleet.Placement) bool {
	taken, after := w.takeNow(k, p)
	if after > 0 {
		w.s.Queues.Placements.AddAfter(k, after)
	}
	return taken
}

// takeNow is take without the queue: after is the rest of the time during which changes are
// collected.
func (w *selections) takeNow(k api.Key, p fleet.Placement) (taken bool, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, ok := w.taken[k]
	since, changed := w.changed[k]
	if ok && reflect.DeepEqual(before, p) {
		if !changed {
			return false, 0
		}
		if after = w.s.Collect - time.Since(since); after > 0 {
			return false, after
		}
	}
	w.taken[k] = p
	delete(w.changed, k)
	return true, 0
}

func (w *selections) remove(k api.Key) {
	if one := w.of[k]; one != nil && one.stop != nil {
		one.stop()
	}
	delete(w.of, k)
}

// start watches the selected objects of a placement. If the watch fails, for example because a kind
// was defined that the hub may not read, start enqueues the placement again and again with a
// backoff. The snapshot then fails, too, and its error is shown; otherwise the placement would look
// up to date.
func (w *selections) start(k api.Key, one *selection) {
	one.stop = w.begin(func(ctx context.Context) {
		for again := backoff.New(time.Second, captureAgain).Spread(); ctx.Err() == nil; again.Wait(ctx) {
			for _, err := range w.s.Source.Watch(ctx, one.queries) {
				if ctx.Err() != nil {
					return
				}
				w.change(k)
				if err != nil {
					break
				}
				again.Reset()
			}
		}
	})
}
