package balance_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/balance"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

const (
	lease = 15 * time.Second
	skew  = 2 * time.Second
)

// engine is a balancer whose engine drives runs and watches placements as the fields say.
type engine struct {
	*balance.Balancer
	own     atomic.Int64
	watches atomic.Bool
	lapsed  atomic.Pointer[[]string]
	stop    context.CancelFunc
	ended   chan struct{}
}

func start(t *testing.T, store backend.Store, name string) *engine {
	t.Helper()
	e := &engine{ended: make(chan struct{})}
	e.lapsed.Store(new([]string))
	e.Balancer = balance.New(balance.Options{
		Store: store, Name: name, Lease: lease, Skew: skew, Now: time.Now, Here: func(t time.Time) time.Time { return t }, Log: slog.New(slog.DiscardHandler),
		Count: func() (int, int) { return int(e.own.Load()), 0 }, Watches: e.watches.Load,
		Lapsed: func() []string { return *e.lapsed.Load() }, GiveBack: func(int) {},
	})
	var ctx context.Context
	ctx, e.stop = context.WithCancel(t.Context())
	go func() {
		defer close(e.ended)
		e.Run(ctx)
	}()
	return e
}

// heldFor returns how long the session of an engine still extends a lease, as another engine sees
// it.
func heldFor(t *testing.T, b *balance.Balancer, holder, run string) time.Duration {
	t.Helper()
	until, err := b.LeasedUntil(t.Context(), holder, run)
	if err != nil {
		t.Fatal(err)
	}
	return max(0, time.Until(until))
}

// TestASessionExtendsTheLeasesOfItsEngine checks that a session begins with the first run or watch,
// is renewed as long as there is one, and extends the leases of its engine for others, except the
// lapsed leases that it names.
func TestASessionExtendsTheLeasesOfItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := start(t, store, "a"), start(t, store, "b")
		defer b.stop()
		time.Sleep(time.Minute)
		if a.Covers("run/r", time.Now()) || heldFor(t, b.Balancer, "a", "run/r") > 0 {
			t.Error("an engine without runs has a session")
		}
		for _, holds := range []func(bool){func(on bool) { a.watches.Store(on) }, func(on bool) { a.own.Store(map[bool]int64{true: 3}[on]) }} {
			holds(true)
			a.Wake()
			for range 20 { // after a first third of a lease
				time.Sleep(lease / 3)
				synctest.Wait()
				if !a.Covers("run/r", time.Now()) || !a.Covers("watch/p", time.Now()) {
					t.Fatal("the session does not cover the engine's own leases")
				}
				if left := heldFor(t, b.Balancer, "a", "run/r"); left < lease/2 || left > lease+skew+time.Second {
					t.Fatalf("for another engine the session extends a lease for %v", left)
				}
			}
			holds(false)
			time.Sleep(lease)
			if _, err := store.Get(t.Context(), record.EngineKey("a")); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("the session of an engine that holds nothing: %v", err)
			}
			if a.Covers("run/r", time.Now()) {
				t.Error("an engine relies on a session that it has ended")
			}
		}
		a.own.Store(2)
		a.lapsed.Store(&[]string{"run/hangs"})
		a.Wake()
		time.Sleep(lease / 2)
		if a.Covers("run/hangs", time.Now()) || heldFor(t, b.Balancer, "a", "run/hangs") > 0 {
			t.Error("the session extends the lease of a run whose driver hangs")
		}
		if !a.Covers("run/r", time.Now()) || heldFor(t, b.Balancer, "a", "run/r") == 0 {
			t.Error("the session does not extend the leases of the other runs")
		}
		a.stop()
		<-a.ended
		a.End(t.Context())
		if heldFor(t, b.Balancer, "a", "run/r") > 0 {
			t.Error("the session of an engine that has ended extends a lease")
		}
	})
}

// TestASessionThatIsNotRenewedEnds checks that a session without renewal is over after a lease and
// the skew, whatever the clocks say, and that its engine stops relying on it earlier.
func TestASessionThatIsNotRenewedEnds(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"clocks agree": 0, "the holder is an hour ahead": time.Hour, "a second behind": -time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewStore()
				b := start(t, store, "b")
				defer b.stop()
				put := func(prev backend.Revision) backend.Revision {
					now := stages.At(time.Now().Add(ahead))
					rev, err := store.Put(t.Context(), record.EngineKey("a"), record.Encode(record.Engine{Format: record.Format, Runs: 1, At: now, Until: now.Add(lease)}), prev)
					if err != nil {
						t.Fatal(err)
					}
					return rev
				}
				rev := put("")
				heldFor(t, b.Balancer, "a", "run/r")
				time.Sleep(lease / 3)
				put(rev)
				if heldFor(t, b.Balancer, "a", "run/r") == 0 {
					t.Fatal("the session is over although it was just renewed")
				}
				time.Sleep(lease - time.Millisecond)
				if heldFor(t, b.Balancer, "a", "run/r") == 0 {
					t.Error("the session is over within a lease of its renewal")
				}
				time.Sleep(skew + 10*time.Millisecond)
				if left := heldFor(t, b.Balancer, "a", "run/r"); left > 0 {
					t.Errorf("the session lasts another %v", left)
				}
			})
		})
	}
}

// TestAnEngineWithoutItsStoreRenewsItsLeasesItself checks that an engine whose store accepts no
// writes stops relying on its session before another engine may take its runs.
func TestAnEngineWithoutItsStoreRenewsItsLeasesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := &refusingStore{Store: memory.NewStore()}
		a := start(t, refusing, "a")
		defer a.stop()
		a.own.Store(1)
		a.Wake()
		time.Sleep(lease / 2)
		if !a.Covers("run/r", time.Now()) {
			t.Fatal("there is no session")
		}
		refusing.on.Store(true)
		last := time.Now()
		for a.Covers("run/r", time.Now()) {
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(last); d > lease*2/3 {
			t.Errorf("the engine relied on its session for %v", d)
		}
	})
}

// TestAnInterruptedSessionExtendsNoOlderLease checks that an engine relies on an interrupted
// session only for leases that it has saved since, because another engine may have taken the other
// leases.
func TestAnInterruptedSessionExtendsNoOlderLease(t *testing.T) {
	deleted := func(t *testing.T, s *refusingStore) {
		rec, err := s.Get(t.Context(), record.EngineKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), rec.Key, rec.Revision); err != nil {
			t.Fatal(err)
		}
	}
	for name, interrupt := range map[string]func(*testing.T, *engine, *refusingStore){
		"not saved for longer than it lasts": func(_ *testing.T, _ *engine, s *refusingStore) {
			s.on.Store(true)
			time.Sleep(2 * lease)
			s.on.Store(false)
		},
		"deleted": func(t *testing.T, a *engine, s *refusingStore) {
			deleted(t, s)
			a.Changed(t.Context(), backend.Change{Key: record.EngineKey("a"), Deleted: true})
		},
		"deleted, and nothing tells": func(t *testing.T, _ *engine, s *refusingStore) { deleted(t, s) },
		"saved by another process": func(t *testing.T, _ *engine, s *refusingStore) {
			deleted(t, s)
			if _, err := s.Put(t.Context(), record.EngineKey("a"), []byte("{}"), ""); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &refusingStore{Store: memory.NewStore()}
				a := start(t, store, "a")
				defer a.stop()
				a.own.Store(1)
				a.Wake()
				saved := time.Now()
				time.Sleep(10 * lease)
				synctest.Wait()
				if !a.Covers("run/r", saved) {
					t.Fatal("the session does not extend a lease that is older than it")
				}
				interrupt(t, a, store)
				time.Sleep(lease / 2)
				synctest.Wait()
				if a.Covers("run/r", saved) {
					t.Error("the engine relies on the session for a lease that is older than the interruption")
				}
				if !a.Covers("run/r", time.Now()) {
					t.Error("the session was not saved again")
				}
			})
		})
	}
}

// TestAnEngineThatEndsIsLeftNoRuns checks that the session of an ending engine still extends the
// leases of runs that it has not released, but that no engine leaves runs to it.
func TestAnEngineThatEndsIsLeftNoRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := start(t, store, "a"), start(t, store, "b")
		defer b.stop()
		a.own.Store(1)
		a.Wake()
		time.Sleep(lease / 2)
		changed := func() {
			t.Helper()
			rec, err := store.Get(t.Context(), record.EngineKey("a"))
			if err != nil {
				t.Fatal(err)
			}
			b.Changed(t.Context(), backend.Change{Key: rec.Key, Revision: rec.Revision})
		}
		changed()
		if !b.HasMore(5) || b.Surplus(5) != 2 {
			t.Fatalf("an engine drives one run, another one five: more %t, surplus %d", b.HasMore(5), b.Surplus(5))
		}
		a.stop()
		<-a.ended
		changed()
		if b.HasMore(5) || b.Surplus(5) != 0 {
			t.Errorf("the engine is ending: more %t, surplus %d", b.HasMore(5), b.Surplus(5))
		}
		if heldFor(t, b.Balancer, "a", "run/r") < lease/2 || !a.Covers("run/r", time.Now()) {
			t.Error("the session does not extend the leases of runs that were not given back")
		}
		if b.HasMore(5) {
			t.Error("a run is left to the engine after its session was read again")
		}
		a.End(t.Context())
		if heldFor(t, b.Balancer, "a", "run/r") > 0 {
			t.Error("the session lasts after the end of the engine")
		}
	})
}

// TestASessionThatWasDeletedIsSavedAgain checks that an engine does not rely on a deleted session,
// and saves it again at once.
func TestASessionThatWasDeletedIsSavedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusingStore{Store: memory.NewStore()}
		a := start(t, store, "a")
		defer a.stop()
		a.own.Store(1)
		a.Wake()
		time.Sleep(lease / 2)
		rec, err := store.Get(t.Context(), record.EngineKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Delete(t.Context(), rec.Key, rec.Revision); err != nil {
			t.Fatal(err)
		}
		store.on.Store(true)
		a.Changed(t.Context(), backend.Change{Key: rec.Key, Deleted: true})
		synctest.Wait()
		if a.Covers("run/r", time.Now()) {
			t.Error("the engine relies on a session that was deleted")
		}
		store.on.Store(false)
		a.Changed(t.Context(), backend.Change{Key: rec.Key, Deleted: true})
		synctest.Wait()
		if _, err := store.Get(t.Context(), rec.Key); err != nil || !a.Covers("run/r", time.Now()) {
			t.Errorf("the session was not saved again: %v", err)
		}
	})
}

// TestASessionOfANewerFormatEnds checks that another engine's session of a newer format lasts as
// long as it is renewed.
func TestASessionOfANewerFormatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		b := start(t, store, "b")
		defer b.stop()
		rev := backend.Revision("")
		for range 3 {
			next, err := store.Put(t.Context(), record.EngineKey("a"), record.Encode(record.Engine{Format: record.Format + 1, Runs: 1}), rev)
			if err != nil {
				t.Fatal(err)
			}
			if rev = next; heldFor(t, b.Balancer, "a", "run/r") < lease {
				t.Error("the session does not extend the lease")
			}
			time.Sleep(lease / 3)
		}
		time.Sleep(lease*2/3 + skew + time.Millisecond)
		if left := heldFor(t, b.Balancer, "a", "run/r"); left > 0 && left != lease+skew || b.HasMore(5) {
			t.Errorf("the session lasts another %v after its last renewal", left)
		}
	})
}

// TestASessionWithManyLapsedRunsExtendsNothing checks that a session extends no lease if more runs
// have lapsed than it may name.
func TestASessionWithManyLapsedRunsExtendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		a, b := start(t, store, "a"), start(t, store, "b")
		defer a.stop()
		defer b.stop()
		many := slices.Repeat([]string{"x"}, 300)
		a.own.Store(1)
		a.lapsed.Store(&many)
		a.Wake()
		time.Sleep(lease)
		if a.Covers("run/r", time.Now()) || heldFor(t, b.Balancer, "a", "run/r") > 0 {
			t.Error("the session extends leases")
		}
		if rec, err := store.Get(t.Context(), record.EngineKey("a")); err != nil || len(rec.Value) > 500 {
			t.Errorf("%d bytes, %v", len(rec.Value), err)
		}
	})
}

type refusingStore struct {
	backend.Store
	on atomic.Bool
}

func (s *refusingStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if s.on.Load() {
		return "", errors.New("no answer")
	}
	return s.Store.Put(ctx, key, value, prev)
}
