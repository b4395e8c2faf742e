package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// flaky runs a few clusters while calls to the store fail for some time.
func flaky(t *testing.T, from, to time.Duration, match func(faulty.Call) bool) (members map[string][]string, took time.Duration, calls int) {
	synctest.Test(t, func(t *testing.T) {
		w, start := newSmallEnv(t, 6), time.Now()
		n := atomic.Int32{}
		plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			if at := time.Since(start); at < from || at >= to || !match(c) {
				return faulty.Fault{}
			}
			n.Add(1)
			return faulty.Before(nil)
		})
		for i := range 6 {
			w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return 100 * time.Millisecond })
		}
		e := w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store)})
		w.declare(w.newEngine(fleet.Config{}), smallPlacement("p"))
		w.create(w.newEngine(fleet.Config{}), fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2)})
		stop := running(t, e)
		w.wait("r")
		took = time.Since(start)
		settle()
		stop()
		once := map[string]int{}
		for _, ev := range w.past(100) {
			if ev.Type == stages.ClusterCompleted {
				once[ev.Cluster]++
			}
		}
		for c, n := range once {
			if n != 1 {
				t.Errorf("%s was done %d times", c, n)
			}
		}
		w.tidy()
		members, calls = w.members(), int(n.Load())
	})
	return members, took, calls
}

// A store that fails for ten seconds or a minute, or only for writes or lists, costs that time and
// little work.
func TestFailingStoreOnlyDelays(t *testing.T) {
	t.Parallel()
	none := func(faulty.Call) bool { return false }
	want, base, _ := flaky(t, 0, 0, none)
	for name, match := range map[string]func(faulty.Call) bool{
		"all":    func(faulty.Call) bool { return true },
		"writes": func(c faulty.Call) bool { return c.Write > 0 },
		"lists":  func(c faulty.Call) bool { return c.Op == "list" || c.Op == "watch" },
		"runs":   func(c faulty.Call) bool { return strings.HasPrefix(c.Key, "run/") },
	} {
		for _, from := range []time.Duration{0, base / 3} {
			for _, long := range []time.Duration{10 * time.Second, time.Minute} {
				t.Run(fmt.Sprint(name, from, long), func(t *testing.T) {
					got, took, calls := flaky(t, from, from+long, match)
					if d := cmp.Diff(want, got); d != "" {
						t.Errorf("members (-want +got):\n%s", d)
					}
					if took > base+long+20*time.Second {
						t.Errorf("took %v, %v when nothing fails", took, base)
					}
					if most := 100 * int(long/time.Second); calls > most {
						t.Errorf("%d calls failed, want at most %d", calls, most)
					}
				})
			}
		}
	}
}

// Three hundred unreachable clusters and a store that is down for twenty minutes cost little, and
// everything works afterwards.
func TestStoreAndClustersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 300)
		var down atomic.Bool
		var puts, dials atomic.Int64
		plan := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
			return c.Op == "put" && down.Load() && puts.Add(1) > 0
		}, faulty.Before(nil)))
		broken := true
		d := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
			if !broken {
				return w.fleet.Dial(ctx, c)
			}
			down.Store(true)
			dials.Add(1)
			return nil, errors.New("no route to host")
		})
		h := w.newEngine(fleet.Config{Name: "host"})
		w.declare(h, smallPlacement("web"))
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(300)})
		defer running(t, w.newEngine(fleet.Config{Name: "one", Store: plan.Store(w.store), Dialer: d}))()
		time.Sleep(20 * time.Minute)
		if puts.Load() > 520 || dials.Load() > 310 || dials.Load() < 300 { // a try every 5 s, of the run and of the session
			t.Errorf("%d puts and %d dials have failed", puts.Load(), dials.Load())
		}
		down.Store(false)
		broken = false
		w.within(10*time.Minute, "a", stages.Completed)
		settle()
		w.tidy()
		if n := w.happened("a", stages.ClusterCompleted); n != 300 {
			t.Errorf("%d clusters completed in the journal, want 300", n)
		}
	})
}

func TestUnreachableClusterYieldsItsSlot(t *testing.T) {
	churn(t, func(w *engineEnv) {
		w.fleet.SetDown("c01", true)
		time.AfterFunc(20*time.Minute, func() { w.fleet.SetDown("c01", false) })
	}, func(w *engineEnv, _ *fleet.Engine, feed *feed) {
		w.wantStates("r", stages.Completed, stages.Completed, stages.Completed, stages.Completed)
		done := completions(feed.events, "r")
		if done["c03"] > 10*time.Minute || done["c01"] < 20*time.Minute || done["c01"] > 23*time.Minute {
			w.t.Errorf("done after %v: c01 was to be last, soon after it came back", done)
		}
		if !slices.ContainsFunc(feed.events, func(ev stages.Event) bool { return ev.Type == stages.ClusterPending && ev.Cluster == "c01" }) {
			w.t.Error("c01 was never Pending")
		}
	})
}

// An engine changes a cluster and dies without a report. The cluster, which cannot be reached,
// counts as changed: it keeps its slot, and the rollback includes it although it was skipped.
func TestAClusterThatADeadEngineChangedIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("p"))
		strategy := allAtOnce(1)
		strategy.Rollback = &stages.RollbackPolicy{}
		w.create(e, fleet.RunSpec{Name: "one", Placement: "p", Strategy: strategy})
		stop := running(t, e)
		w.wait("one")
		stop()

		if err := w.source.Put(plain("v2")); err != nil {
			t.Fatal(err)
		}
		w.create(e, fleet.RunSpec{Name: "two", Placement: "p", Strategy: strategy})
		plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			if c.Op != "apply" || c.Key != "c00/Setting/app" {
				return faulty.Fault{}
			}
			return faulty.Fault{Crash: true, After: faulty.ErrCrashed}
		})
		dead := running(t, w.newEngine(fleet.Config{Name: "dies", Store: plan.Store(w.store), Dialer: plan.Dialer(w.fleet)}))
		settle()
		dead()
		if got := w.setting("c00"); got != "v2" || !plan.Crashed() {
			t.Fatalf("c00 has %q", got)
		}
		w.fleet.SetDown("c00", true)
		stop = running(t, e)
		settle()
		if got := w.setting("c01"); got != "v1" {
			t.Errorf("c01 has %q while c00 may be half changed", got)
		}
		w.command(e, "two", stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "c00"})
		w.within(10*time.Minute, "two", stages.Completed)
		w.fleet.SetDown("c00", false)
		if _, err := e.Run("two").Rollback(t.Context(), fleet.RollbackOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		w.within(10*time.Minute, "two-rollback", stages.Completed)
		stop()
		for _, cluster := range []string{"c00", "c01"} {
			if got := w.setting(cluster); got != "v1" {
				t.Errorf("after the rollback %s has %q", cluster, got)
			}
		}
	})
}
