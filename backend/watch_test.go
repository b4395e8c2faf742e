package backend_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// plain hides that a store can watch, and counts the lists.
type plain struct {
	backend.Store
	lists int
	fail  error
}

func (p *plain) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	p.lists++
	if p.fail != nil {
		return func(yield func(backend.Record, error) bool) { yield(backend.Record{}, p.fail) }
	}
	return p.Store.List(ctx, prefix)
}

type plainConn struct{ backend.Conn }

// collect watches until n changes were seen.
func collect(ctx context.Context, s backend.Store, n int) []backend.Change {
	var got []backend.Change
	for c, err := range backend.Watch(ctx, s, "a/", 0) {
		if err != nil {
			break
		}
		if got = append(got, c); len(got) == n {
			break
		}
	}
	return got
}

func TestWatchPollsAStoreWithoutAWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		store := &plain{Store: memory.NewStore()}
		one, _ := store.Put(ctx, "a/1", nil, "")
		_, _ = store.Put(ctx, "b/1", nil, "")
		var two, three, four backend.Revision
		written := make(chan struct{})
		go func() {
			defer close(written)
			time.Sleep(1500 * time.Millisecond)
			two, _ = store.Put(ctx, "a/2", nil, "")
			_ = store.Delete(ctx, "a/1", one)
			time.Sleep(2 * time.Second)
			three, _ = store.Put(ctx, "a/3", nil, "")
			time.Sleep(2 * time.Second)
			four, _ = store.Put(ctx, "a/4", nil, "")
		}()
		start := time.Now()
		got := collect(ctx, store, 5)
		<-written
		want := []backend.Change{
			{Key: "a/1", Revision: one},
			{Key: "a/2", Revision: two},
			{Key: "a/1", Deleted: true},
			{Key: "a/3", Revision: three},
			{Key: "a/4", Revision: four},
		}
		// Polled at 0, 1 and 3 seconds; there was a change, so at 4, 5 and 7 again.
		if d := time.Since(start); d != 7*time.Second {
			t.Errorf("it took %v, want 7s", d)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWatchPollsLessWhileNothingChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		store := &plain{Store: memory.NewStore()}
		var last error
		for _, err := range backend.Watch(ctx, store, "", time.Second) {
			last = err
		}
		// 0, 1, 3, 7, 15 and every 10 seconds after that.
		if store.lists != 13 {
			t.Errorf("listed %d times in 100 s, want 13", store.lists)
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("ended with %v, want the context's error", last)
		}
	})
}

func TestWatchEndsWithTheErrorOfTheStore(t *testing.T) {
	broken := errors.New("broken")
	var got []error
	for _, err := range backend.Watch(t.Context(), &plain{Store: memory.NewStore(), fail: broken}, "", 0) {
		got = append(got, err)
	}
	if len(got) != 1 || !errors.Is(got[0], broken) {
		t.Errorf("got %v, want the store's error once", got)
	}
}

func TestWatchUsesTheWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		go func() {
			time.Sleep(time.Millisecond)
			_, _ = store.Put(t.Context(), "a/1", nil, "")
		}()
		start := time.Now()
		if got := collect(t.Context(), store, 1); len(got) != 1 || time.Since(start) != time.Millisecond {
			t.Errorf("got %v after %v, want one change after 1ms", got, time.Since(start))
		}
	})
}

func TestWatchConnPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		start := time.Now()
		var at []int
		var last error
		for _, err := range backend.WatchConn(ctx, plainConn{memory.NewCluster("c").Conn()}, nil, time.Second) {
			if last = err; err == nil {
				at = append(at, int(time.Since(start).Seconds()))
			}
		}
		if diff := cmp.Diff([]int{0, 1, 3, 7, 15, 25, 35}, at); diff != "" {
			t.Error(diff)
		}
		if !errors.Is(last, context.DeadlineExceeded) {
			t.Errorf("ended with %v, want the context's error", last)
		}
	})
}

func TestWatchConnUsesTheWatcher(t *testing.T) {
	cluster := memory.NewCluster("c")
	ns := snapshot.ID{Version: "v1", Kind: "Namespace", Name: "default"}
	n := 0
	for _, err := range backend.WatchConn(t.Context(), cluster.Conn(), []snapshot.ID{ns}, time.Hour) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 2 {
			break
		}
		if err := cluster.SetStatus(ns, map[string]any{"phase": "Active"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchInventoryPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fleet := memory.NewFleet(placement.Cluster{Name: "a"})
		start := time.Now()
		go func() {
			time.Sleep(1500 * time.Millisecond)
			fleet.Relabel("a", map[string]string{"x": "y"})
		}()
		var at []time.Duration
		for _, err := range backend.WatchInventory(ctx, backend.InventoryFunc(fleet.Clusters), time.Second) {
			if err == nil {
				at = append(at, time.Since(start))
			}
		}
		if diff := cmp.Diff([]time.Duration{0, 3 * time.Second}, at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestValidateKey(t *testing.T) {
	for _, key := range []string{"a", "a/b", "0-9._/x", strings.Repeat("k", backend.MaxKey)} {
		if err := backend.ValidateKey(key); err != nil {
			t.Error(err)
		}
	}
	bad := []string{"", "A", "a b", "a/", "/a", "a//b", "a/../b", ".", "ä", "a\n", strings.Repeat("k", backend.MaxKey+1)}
	for _, key := range bad {
		if err := backend.ValidateKey(key); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("ValidateKey(%q) = %v, want ErrPermanent", key, err)
		}
	}
}

func TestClustersAreReadThroughTheFunc(t *testing.T) {
	f := backend.InventoryFunc(memory.NewFleet(placement.Cluster{Name: "a"}).Clusters)
	for c := range f.Clusters(t.Context()) {
		if !slices.Contains([]string{"a"}, c.Name) {
			t.Errorf("got %v", c)
		}
	}
	d := backend.DialerFunc(memory.NewFleet().Dial)
	if _, err := d.Dial(t.Context(), placement.Cluster{Name: "a"}); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
