package upgrade_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// TestACrashAtAnyWriteBeginsNothingTwice checks that an engine which continues after a crash at any
// write requests the same changes: each is begun once, and the images are those chosen at the
// start.
func TestACrashAtAnyWriteBeginsNothingTwice(t *testing.T) {
	crashes := map[string]func(int) faulty.Rule{"after": faulty.CrashAfter}
	if soak() {
		crashes["before"] = faulty.CrashBefore
	}
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			n := 1
			for ; dies(t, crash(n)); n++ {
				if t.Failed() {
					t.Fatalf("at write %d", n)
				}
			}
			if n < 10 {
				t.Errorf("the engine made only %d writes", n)
			}
		})
	}
}

// dies upgrades two clusters with an engine that dies and another engine that continues, and
// reports whether the first engine died.
func dies(t *testing.T, crash faulty.Rule) (died bool) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, testState("w1", "w2"), full(upgrade.Latest))
		plan := faulty.NewPlan(crash)
		first := r.engine("one", plan.Store(r.store))
		stop := r.running(first)
		spec := fleet.RunSpec{Name: "run-1", Placement: "prod", Strategy: oneByOne(0)}
		_, err := first.CreateRun(t.Context(), spec)
		for range 60 {
			if plan.Crashed() {
				break
			}
			time.Sleep(10 * time.Second)
		}
		stop()
		died = plan.Crashed()
		r.p.Edit(func(w *embedded.State) { w.Regions["west"].Images[""] = []string{"i4", "i3"} })
		defer r.running(r.e)()
		if _, gone := r.e.Run("run-1").Status(t.Context()); err != nil && gone != nil {
			r.create("run-1", oneByOne(0))
		}
		s := r.until("run-1", stages.Completed)
		for _, name := range []string{"w1", "w2"} {
			c := clusterOf(t, r.p, name)
			if d := cmp.Diff([]string{s.Run.UID + ".1.ControlPlane", s.Run.UID + ".1.Nodes"}, begun(&c)); d != "" {
				t.Errorf("changes of %s (-want +got):\n%s", name, d)
			}
			r.wantHas(name, upgraded(c.Begun[0].Change.Goal.Pools[0].Image))
		}
		for name, state := range ended(s) {
			if state != stages.Completed {
				t.Errorf("%s is %s: %s", name, state, r.reason("run-1", name))
			}
		}
	})
	return died
}

// pausedProvider delays Begin, whatever its context says, until it is woken.
type pausedProvider struct {
	*embedded.Provider
	wake chan struct{}
	came chan error
}

func (p *pausedProvider) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	<-p.wake
	err := p.Provider.Begin(context.WithoutCancel(ctx), c, change)
	p.came <- err
	return err
}

func TestAnEngineThatWasPausedBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newEnv(t, testState("w1", "w2"), full(upgrade.Latest))
		paused := &pausedProvider{r.p, make(chan struct{}), make(chan error, 10)}
		first, err := fleet.New(fleet.Config{Name: "paused", Store: r.store, Inventory: r.members, Source: r.source, Updater: upgrade.NewUpdater(paused)})
		if err != nil {
			t.Fatal(err)
		}
		stop := r.running(first)
		r.create("run-1", oneByOne(0))
		time.Sleep(time.Second)
		stop()
		defer r.running(r.e)()
		s := r.until("run-1", stages.Completed)
		close(paused.wake)
		if err := <-paused.came; !errors.Is(err, backend.ErrFenced) {
			t.Errorf("the engine that was paused: %v", err)
		}
		for _, name := range []string{"w1", "w2"} {
			c := clusterOf(t, r.p, name)
			if d := cmp.Diff([]string{s.Run.UID + ".1.ControlPlane", s.Run.UID + ".1.Nodes"}, begun(&c)); d != "" {
				t.Errorf("changes of %s (-want +got):\n%s", name, d)
			}
		}
	})
}
