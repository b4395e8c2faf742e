package placements

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// A snapshot is taken at once for a new placement and for each new declaration. Changes of selected
// objects are collected first, for a time that is counted from the first change.
func TestASnapshotIsTakenOnceChangesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *selections
		var inQueue atomic.Int64
		k, p := api.Key{Name: "web"}, fleet.Placement{Name: "web"}
		queue := reconcile.New(reconcile.Options[api.Key]{Reconcile: func(_ context.Context, k api.Key) (time.Duration, error) {
			if w.take(k, p) {
				inQueue.Add(1)
			}
			return 0, nil
		}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { queue.Run(ctx); close(ended) }()
		defer func() { stop(); <-ended }()
		w = newSelections(&Reconciler{Collect: 500 * time.Millisecond, Queues: &queues.Queues{Placements: queue}})
		want := func(when string, want bool) {
			t.Helper()
			if got := w.take(k, p); got != want {
				t.Fatalf("%s: a snapshot is taken: %t, want %t", when, got, want)
			}
		}
		want("at first", true)
		want("without a change", false)
		w.change(k)
		want("right after a change", false)
		queue.AddAfter(k, 100*time.Millisecond) // for another reason, in place of the reconcile at 500 ms
		time.Sleep(300 * time.Millisecond)
		w.change(k)
		time.Sleep(199 * time.Millisecond)
		synctest.Wait()
		if inQueue.Load() != 0 {
			t.Fatal("the reconcile takes a snapshot 499 ms after the first change")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if inQueue.Load() != 1 {
			t.Fatalf("the reconcile takes %d snapshots 500 ms after the first change, want 1", inQueue.Load())
		}
		want("after the snapshot", false)
		w.change(k)
		p.Exclusive = true
		want("declared otherwise, right after a change", true)
		want("after that", false)
		w.mark(k)
		want("after a snapshot that could not be taken", true)
		w.change(k)
		w.drop(k)
		want("of a placement that was made again", true)
	})
}
