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

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// A save of a run is reported as failed, and takes effect only after the run was read again. The
// engine accepts it: no event is lost or repeated.
func TestSaveThatLandsLate(t *testing.T) {
	t.Parallel()
	for n := 1; n < 14; n++ {
		for calls := 1 + n%apart(3); calls < 9; calls += apart(3) {
			synctest.Test(t, func(t *testing.T) {
				defer logCase(t, "save %d lands before call %d after it", n, calls)
				w := newSmallEnv(t, 4)
				for i := range 4 {
					w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return time.Duration(5+7*i) * time.Millisecond })
				}
				puts := 0
				plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
					if c.Op != "put" || c.Key != "run/r" {
						return faulty.Fault{}
					}
					if puts++; puts != n {
						return faulty.Fault{}
					}
					return faulty.LateCalls(nil, calls)
				})
				h := w.newEngine(fleet.Config{Name: "host"})
				w.declare(h, smallPlacement("web"))
				w.create(h, fleet.RunSpec{Name: "r", Placement: "web", Strategy: allAtOnce(4)})
				defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)}))()
				w.within(time.Minute, "r", stages.Completed)
				settle()
				w.tidy()
				if done := w.happened("r", stages.ClusterCompleted); done != 4 || w.happened("r", stages.RunCompleted) != 1 {
					t.Errorf("%d clusters completed in the journal, want 4", done)
				}
			})
		}
	}
}

// A cluster may return its slot because nothing was sent to it. The engine does not work on the
// cluster while another one has the slot.
func TestNoWorkWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		plan := faulty.NewPlan(
			faulty.On(func(c faulty.Call) bool { return c.Op == "put" && c.Key == "run/a" }, faulty.Fault{Delay: 400 * time.Millisecond}))
		rec, dials := newRecorder(w.fleet), 0
		d := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
			if c.Name == "c00" {
				if dials++; dials == 1 {
					return nil, errors.New("no route to host")
				}
			}
			return rec.dialer("one").Dial(ctx, c)
		})
		w.fleet.SetDelay("c00", func() time.Duration { return 20 * time.Millisecond })
		w.fleet.SetDelay("c01", func() time.Duration { return 60 * time.Millisecond })
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1)})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store), Dialer: d}))()
		w.within(10*time.Minute, "a", stages.Completed)
		var order []string
		for _, c := range rec.all() {
			if n := len(order); n == 0 || order[n-1] != c.Cluster {
				order = append(order, c.Cluster)
			}
		}
		if got := strings.Join(order, " "); got != "c01 c00" {
			t.Errorf("the clusters were changed in the order %s, want c01 and then c00: %v", got, rec.all())
		}
		if w.happened("a", stages.ClusterPending) == 0 {
			t.Error("c00 did not give its slot away: the test does not test enough")
		}
	})
}

// A run that no engine can drive is retried with backoff, and can be deleted.
func TestDamagedRunIsRarelyTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters = 33 // more than the run's record holds in flight
		w := newSmallEnv(t, clusters)
		hang := func(hang bool) {
			for i := range clusters {
				w.fleet.Hang(fmt.Sprintf("c%02d", i), hang)
			}
		}
		hang(true)
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(clusters)})
		stop := running(t, w.newEngine(fleet.Config{Name: "one"}))
		time.Sleep(time.Second)
		stop()
		pages := w.keys("inflight/")
		for _, k := range pages {
			edit(t, w.store, k, damage)
		}
		var calls atomic.Int64
		plan := faulty.NewPlan(calm(50_000, &calls, anyCall))
		defer running(t, w.newEngine(fleet.Config{Name: "two", Store: plan.Store(w.store)}))()
		time.Sleep(time.Hour)
		alone := w.happened("a", stages.RunTaken)
		if alone < 2 || alone > 36 || len(pages) == 0 {
			t.Errorf("a run of %d damaged pages was taken %d times in an hour", len(pages), alone)
		}
		defer running(t, w.newEngine(fleet.Config{Name: "three", Store: plan.Store(w.store)}))()
		time.Sleep(time.Hour)
		if n := w.happened("a", stages.RunTaken) - alone; n > 60 {
			t.Errorf("two engines took it %d times in an hour", n)
		}
		hang(false)
		if err := h.Run("a").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1)})
		w.within(time.Minute, "a", stages.Completed)
	})
}

// If a save is slow, it takes the observations of many clusters. If saves take no time, each
// observation is saved at once.
func TestSlowSavesTakeInMoreClusters(t *testing.T) {
	const clusters = 40
	saves := func(took time.Duration) (n int, end time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := newSmallEnv(t, clusters)
			for i := range clusters {
				w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return time.Duration(10+i) * time.Millisecond })
			}
			slow := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
				if c.Op != "put" || c.Key != "run/a" {
					return faulty.Fault{}
				}
				n++
				return faulty.Fault{Delay: took}
			})
			e := w.newEngine(fleet.Config{Name: "one", Store: slow.Store(w.store)})
			w.declare(e, smallPlacement("web"))
			w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(clusters)})
			began := time.Now()
			defer running(t, e)()
			w.within(time.Minute, "a", stages.Completed)
			end = time.Since(began)
		})
		return n, end
	}
	slow, slowEnd := saves(10 * time.Millisecond)
	quick, quickEnd := saves(0)
	if slow*2 > quick || quick < clusters {
		t.Errorf("%d saves of 10 ms, %d of none", slow, quick)
	}
	if late := slowEnd - quickEnd; late > 300*time.Millisecond {
		t.Errorf("the run took %v more", late)
	}
}
