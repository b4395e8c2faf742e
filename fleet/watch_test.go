package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// blind hides the watches of a backend.
func blind(cfg *fleet.Config, w *engineEnv) {
	cfg.Store = struct{ backend.Store }{w.store}
	cfg.Inventory = struct{ backend.Inventory }{w.fleet}
	cfg.Dialer = backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		conn, err := w.fleet.Dial(ctx, c)
		return struct{ backend.Conn }{conn}, err
	})
}

// reactions returns the delays between the readiness of each of five clusters and the start of the
// next, and the events.
func reactions(t *testing.T, watch bool) (delays []time.Duration, what []string) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 5)
		cfg := fleet.Config{Name: "one", Prober: probed, Poll: 10 * time.Second}
		if !watch {
			blind(&cfg, w)
		}
		e := w.newEngine(cfg)
		w.declare(e, smallPlacement("p"))
		stop := running(t, e)
		defer stop()
		feed := w.follow(true)
		defer feed.stop()
		time.Sleep(3 * time.Second)
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)})
		for i := range 5 {
			cluster := fmt.Sprintf("c%02d", i)
			feed.await(cluster+" is applied", func(ev stages.Event) bool { return ev.Type == stages.ClusterApplied && ev.Cluster == cluster })
			time.Sleep(37 * time.Second)
			at := time.Now()
			w.makeReady(cluster, true)
			done := feed.await(cluster+" is done", func(ev stages.Event) bool { return ev.Type == stages.ClusterCompleted && ev.Cluster == cluster })
			delays = append(delays, done.Time.Sub(at.Truncate(time.Millisecond)))
			if i < 4 {
				next := feed.await("the next is started", func(ev stages.Event) bool {
					return ev.Type == stages.ClusterStarted && ev.Cluster == fmt.Sprintf("c%02d", i+1)
				})
				if !next.Time.Equal(done.Time) {
					t.Errorf("after %s it took %v to start the next", cluster, next.Time.Sub(done.Time))
				}
			}
		}
		feed.end("r")
		for _, ev := range feed.events {
			what = append(what, fmt.Sprint(ev.Type, ev.Cluster))
		}
	})
	return delays, what
}

// With watches there is no polling. Without them the same events happen, only later.
func TestEventDriven(t *testing.T) {
	t.Parallel()
	delays, events := reactions(t, true)
	for i, d := range delays {
		if d > 5*time.Millisecond {
			t.Errorf("with watches, cluster %d was seen to be ready after %v", i, d)
		}
	}
	later, same := reactions(t, false)
	for i, d := range later {
		if d <= 5*time.Millisecond || d > 101*time.Second {
			t.Errorf("without watches, cluster %d was seen to be ready after %v", i, d)
		}
	}
	slices.Sort(events)
	slices.Sort(same)
	if d := cmp.Diff(events, same); d != "" {
		t.Errorf("events (-with watches +without):\n%s", d)
	}
}
