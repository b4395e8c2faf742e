package fleet_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// A client that waits for a run of the same engine reads the run at the beginning and at the end,
// however often it is saved.
func TestWaitOnTheDrivingEngineReadsRarely(t *testing.T) {
	reads := func(wait bool) (n int) {
		synctest.Test(t, func(t *testing.T) {
			w := newSmallEnv(t, 20)
			for i := range 20 {
				w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return time.Duration(100+20*i) * time.Millisecond })
			}
			counted := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
				if c.Op == "get" && c.Key == "run/a" {
					n++
				}
				return faulty.Fault{}
			})
			e := w.newEngine(fleet.Config{Name: "one", Store: counted.Store(w.store)})
			w.declare(e, smallPlacement("web"))
			w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1)})
			defer running(t, e)()
			if wait {
				if s, err := e.Run("a").Wait(t.Context()); err != nil || s.Run.State != stages.Completed {
					t.Errorf("run a is %s: %v", s.Run.State, err)
				}
				return
			}
			w.within(time.Hour, "a", stages.Completed)
		})
		return n
	}
	with, without := reads(true), reads(false)
	if with > without+10 {
		t.Errorf("%d reads, %d where nothing waits", with, without)
	}
}
