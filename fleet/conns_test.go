package fleet_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// openConn is a connection that counts itself while it is open.
type openConn struct {
	backend.ConnWatcher
	open *atomic.Int32
}

func (c *openConn) Close() error {
	c.open.Add(-1)
	return c.ConnWatcher.Close()
}

// Unused connections to clusters are closed within minutes. Connections to clusters that a run
// waits for stay open, and closed ones are opened again when needed.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 50)
		var open, dials atomic.Int32
		d := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
			conn, err := w.fleet.Dial(ctx, c)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			dials.Add(1)
			return &openConn{conn.(backend.ConnWatcher), &open}, nil
		})
		e := w.newEngine(fleet.Config{Name: "one", Dialer: d, Prober: probed})
		w.declare(e, smallPlacement("web"))
		stop := running(t, e)
		defer stop()
		for i, run := range []string{"a", "b"} {
			w.now(plain(run))
			w.create(e, fleet.RunSpec{Name: run, Placement: "web", Strategy: allAtOnce(50)})
			time.Sleep(time.Hour) // of a, nothing is ready
			if i == 0 && (open.Load() != 50 || dials.Load() != 50) {
				t.Errorf("%d connections are open after %d dials while the run waits, want 50", open.Load(), dials.Load())
			}
			for c := range w.fleet.Clusters(t.Context()) {
				w.makeReady(c.Name, true)
			}
			w.within(time.Minute, run, stages.Completed)
			time.Sleep(7 * time.Minute)
			if n := open.Load(); n != 0 {
				t.Errorf("%d connections are open minutes after run %s", n, run)
			}
		}
		if n := dials.Load(); n != 100 {
			t.Errorf("%d dials for two runs of 50 clusters, want 100", n)
		}
	})
}
