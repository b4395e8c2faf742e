package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// quietStore counts the calls of a store, and separately those about sessions.
type quietStore struct {
	backend.Watcher
	sessions, others atomic.Int64
}

func (s *quietStore) count(key string) {
	if strings.HasPrefix(key, "engine/") {
		s.sessions.Add(1)
		return
	}
	s.others.Add(1)
}

func (s *quietStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.count(key)
	return s.Watcher.Get(ctx, key)
}

func (s *quietStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.count(key)
	return s.Watcher.Put(ctx, key, value, prev)
}

// Waiting runs, and placements with watched clusters, cost an engine one write of its session every
// third of a lease, for any number of them.
func TestWaitingRunsCostOneSessionWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 3)
		store := &quietStore{Watcher: w.store}
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: store}))()
		for i := range 8 {
			w.waitFor(fmt.Sprintf("waits%d", i), 10*time.Hour)
			host, p := w.newEngine(fleet.Config{Name: "host"}), smallPlacement(fmt.Sprintf("watched%d", i))
			p.ApplyStrategy.WhenToApply = apply.Always
			w.declare(host, p)
			w.create(host, fleet.RunSpec{Name: p.Name, Placement: p.Name, Strategy: allAtOnce(2)})
		}
		time.Sleep(2 * time.Minute)
		settle()
		if n := len(w.keys("watch/")); n != 8 {
			t.Fatalf("%d placements are watched", n)
		}
		store.sessions.Store(0)
		store.others.Store(0)
		time.Sleep(10 * time.Minute)
		if n := store.sessions.Load(); n < 100 || n > 130 {
			t.Errorf("%d calls about the session in ten minutes", n)
		}
		if n := store.others.Load(); n > 20 {
			t.Errorf("%d other calls in ten minutes", n)
		}
		if l := w.leases(); len(l) != 8 || l["waits0"].Holder != "one" || l["waits0"].Overdue || time.Until(l["waits0"].Until) < 5*time.Second {
			t.Errorf("the leases: %+v", l)
		}
	})
}

// An engine takes neither a run nor a watch from an engine with a valid session, although the
// leases in the records expired long ago, even if it has just started. It takes both after that
// engine has died.
func TestValidSessionKeepsRunsAndWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		c := newCrowd(t, w)
		defer c.feed.stop()
		w.waitFor("waits", 10*time.Hour)
		host, p := w.newEngine(fleet.Config{Name: "host"}), smallPlacement("watched")
		p.ApplyStrategy.WhenToApply = apply.Always
		w.declare(host, p)
		w.create(host, fleet.RunSpec{Name: p.Name, Placement: p.Name, Strategy: allAtOnce(2)})
		c.start("a")
		time.Sleep(time.Hour)
		has := func(when, engine string) {
			t.Helper()
			settle()
			if got := w.outcome("waits")["holder"]; got != engine {
				t.Errorf("%s the run is driven by %q, not by %q", when, got, engine)
			}
			if rec, err := w.store.Get(t.Context(), "watch/watched"); err != nil || !strings.Contains(string(rec.Value), `"holder":"`+engine+`"`) {
				t.Errorf("%s the placement is watched by %s, not by %q: %v", when, rec.Value, engine, err)
			}
		}
		has("after an hour", "a")
		c.start("b")
		time.Sleep(10 * time.Minute)
		has("when another engine came", "a")
		c.kill("a")
		time.Sleep(time.Minute)
		has("when the engine had died", "b")
		c.end("b")
		c.start("c")
		time.Sleep(2 * time.Second)
		has("when the engine had ended", "c")
		c.end("c")
	})
}

// An engine loses a run if each of its turns fails, and a watch if its reconcile hangs, although
// the engine renews its session.
func TestSessionReleasesRunsWithoutProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		c := newCrowd(t, w)
		defer c.feed.stop()
		w.waitFor("waits", 10*time.Minute)
		host, p := w.newEngine(fleet.Config{Name: "host"}), smallPlacement("watched")
		p.ApplyStrategy.WhenToApply = apply.Always
		w.declare(host, p)
		w.create(host, fleet.RunSpec{Name: p.Name, Placement: p.Name, Strategy: allAtOnce(2)})
		ill := &illStore{Watcher: w.store}
		defer running(t, w.newEngine(fleet.Config{Name: "ill", Store: ill}))()
		time.Sleep(2 * time.Minute)
		c.start("well")
		time.Sleep(2 * time.Minute)
		watcher := func() string {
			rec, err := w.store.Get(t.Context(), "watch/watched")
			if err != nil {
				t.Error(err)
			}
			return string(rec.Value)
		}
		if got := w.outcome("waits")["holder"]; got != "ill" || !strings.Contains(watcher(), `"holder":"ill"`) {
			t.Fatalf("the run is driven by %q, the placement watched by %s", got, watcher())
		}
		ill.on.Store(true)
		lease, err := w.store.Get(t.Context(), "watch/watched")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.store.Put(t.Context(), lease.Key, lease.Value, lease.Revision); err != nil { // the engine reads it again
			t.Fatal(err)
		}
		time.Sleep(7 * time.Minute)
		settle()
		if session, err := w.store.Get(t.Context(), "engine/ill"); err != nil || !strings.Contains(string(session.Value), `"watch/watched"`) {
			t.Errorf("the session of the engine: %s, %v", session.Value, err)
		}
		if !strings.Contains(watcher(), `"holder":"well"`) {
			t.Errorf("the placement is watched by %s", watcher())
		}
		if o := w.outcome("waits"); o["state"] != stages.Completed {
			t.Errorf("the run of an engine whose turns fail: %v", o)
		}
		ill.on.Store(false)
		c.end("well")
	})
}

// illStore fails the writes of runs, and hangs on reads of a watch's lease, while it is on.
type illStore struct {
	backend.Watcher
	on atomic.Bool
}

func (s *illStore) Get(ctx context.Context, key string) (backend.Record, error) {
	if s.on.Load() && strings.HasPrefix(key, "watch/") {
		<-ctx.Done()
		return backend.Record{}, ctx.Err()
	}
	return s.Watcher.Get(ctx, key)
}

func (s *illStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if s.on.Load() && strings.HasPrefix(key, "run/") {
		return "", errors.New("no answer")
	}
	return s.Watcher.Put(ctx, key, value, prev)
}

// withoutSessions is a store for an engine from before sessions, which neither reads nor writes
// them.
type withoutSessions struct{ backend.Watcher }

func (s withoutSessions) Get(ctx context.Context, key string) (backend.Record, error) {
	if strings.HasPrefix(key, "engine/") {
		return backend.Record{}, backend.ErrNotFound
	}
	return s.Watcher.Get(ctx, key)
}

func (s withoutSessions) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if strings.HasPrefix(key, "engine/") {
		return "", errors.New("no sessions")
	}
	return s.Watcher.Put(ctx, key, value, prev)
}

// An engine from before sessions takes waiting runs from an engine that relies on its session. The
// newer engine lets them go, does not retake them while the older engine renews its leases, and
// takes all of them after the older engine has died.
func TestEngineWithoutSessionsTakesWaitingRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		c := newCrowd(t, w)
		defer c.feed.stop()
		w.waitFor("waits", 10*time.Hour)
		c.start("new")
		time.Sleep(10 * time.Minute)
		c.plans["old"] = faulty.NewPlan()
		store := withoutSessions{c.plans["old"].Store(c.store).(backend.Watcher)}
		c.stops["old"] = running(t, w.newEngine(fleet.Config{Name: "old", Store: store, Dialer: c.plans["old"].Dialer(c.fleet)}))
		time.Sleep(time.Minute)
		settle()
		epoch := func(when, engine string) int64 {
			t.Helper()
			l := w.leases()["waits"]
			if l.Holder != engine || l.Overdue {
				t.Errorf("%s the lease is %+v", when, l)
			}
			return l.Epoch
		}
		taken := epoch("a minute after the older engine came", "old")
		session, err := w.store.Get(t.Context(), "engine/new")
		if err == nil && !strings.Contains(string(session.Value), `"runs":0`) {
			t.Errorf("the newer engine still has the run: %s", session.Value)
		}
		time.Sleep(10 * time.Minute)
		if now := epoch("ten minutes later", "old"); now != taken {
			t.Errorf("the run went to and fro: epoch %d, then %d", taken, now)
		}
		c.kill("old")
		time.Sleep(time.Minute)
		settle()
		epoch("when the older engine had died", "new")
		c.end("new")
	})
}

// The session of a running engine is deleted again and again while another engine is present. The
// engine loses nothing: it saves its session again before the other engine looks, or the other
// engine takes over.
func TestADeletedSessionLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		c := newCrowd(t, w)
		defer c.feed.stop()
		w.waitFor("waits", 20*time.Minute)
		c.start("a")
		time.Sleep(time.Minute)
		c.start("b")
		for range 200 {
			time.Sleep(1700 * time.Millisecond)
			for _, key := range w.keys("engine/") {
				if rec, err := w.store.Get(t.Context(), key); err == nil {
					_ = w.store.Delete(t.Context(), key, rec.Revision)
				}
			}
			if l := w.leases()["waits"]; l.Holder == "" {
				t.Fatalf("no engine has the run: %+v", l)
			}
		}
		if l := w.leases()["waits"]; l.Epoch > 20 {
			t.Errorf("the run changed hands too often: %+v", l)
		}
		w.wait("waits")
		if o := w.outcome("waits"); o["state"] != stages.Completed {
			t.Errorf("the run: %v", o)
		}
		c.end("a")
		c.end("b")
	})
}
