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

// What many clusters tell is taken in by few saves where one takes long, and at
// once where it takes no time.
func TestSlowSavesTakeInMoreClusters(t *testing.T) {
	const clusters = 40
	saves := func(took time.Duration) (n int, end time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			w := smallWorld(t, clusters)
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
