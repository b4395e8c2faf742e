package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// stuck is a dialer with one member whose calls all hang, whatever their context.
type stuck struct {
	backend.Dialer
	name      string
	release   chan struct{}
	now, most atomic.Int32
}

func (s *stuck) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	conn, err := s.Dialer.Dial(ctx, c)
	if err != nil || c.Name != s.name {
		return conn, err
	}
	return &stuckConn{conn, s}, nil
}

type stuckConn struct {
	backend.Conn
	s *stuck
}

func (c *stuckConn) Get(context.Context, snapshot.ID) (*unstructured.Unstructured, error) {
	n := c.s.now.Add(1)
	defer c.s.now.Add(-1)
	c.s.most.Store(max(n, c.s.most.Load()))
	<-c.s.release
	return nil, errors.New("too late")
}

// completions returns the times when the clusters of a run were done, since its start.
func completions(events []stages.Event, run string) map[string]time.Duration {
	out := map[string]time.Duration{}
	var start time.Time
	for _, ev := range events {
		switch {
		case ev.Run != run:
		case ev.Type == stages.RunStarted:
			start = ev.Time
		case ev.Type == stages.ClusterCompleted:
			out[ev.Cluster] = ev.Time.Sub(start)
		}
	}
	return out
}

// hundred runs a hundred clusters at once. If hung is not empty, that cluster hangs until all
// others are done and it is skipped.
func hundred(t *testing.T, hung string) (done map[string]time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 100)
		for i := range 100 {
			w.fleet.SetDelay(fmt.Sprintf("c%02d", i), func() time.Duration { return time.Duration(50+i) * time.Millisecond })
		}
		s := &stuck{Dialer: w.fleet, name: hung, release: make(chan struct{})}
		e := w.newEngine(fleet.Config{Name: "one", Dialer: s})
		w.declare(e, smallPlacement("p"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(100)})
		stop := running(t, e)
		feed := w.follow(true)
		defer feed.stop()
		if hung != "" {
			time.Sleep(time.Hour)
			if n := s.most.Load(); n != 1 {
				t.Errorf("%d calls hang at the same time, want 1", n)
			}
			if err := e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: hung}); err != nil {
				t.Fatal(err)
			}
		}
		feed.end("r")
		at := time.Now()
		stop()
		if d := time.Since(at); d > 15*time.Second {
			t.Errorf("the engine took %v to end", d)
		}
		if n := s.now.Load(); n > 1 {
			t.Errorf("%d goroutines were left behind, want at most 1", n)
		}
		close(s.release)
		done = completions(feed.events, "r")
	})
	return done
}

// A hanging cluster delays no other cluster, even if it ignores the timeout of its calls.
func TestHangingClusterDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	want := hundred(t, "")
	got := hundred(t, "c42")
	if len(want) != 100 || len(got) != 99 {
		t.Fatalf("%d and %d clusters are done, want 100 and 99", len(want), len(got))
	}
	for name, at := range got {
		if d := at - want[name]; d > time.Millisecond || d < -time.Millisecond {
			t.Errorf("%s was done after %v, without the hanging cluster after %v", name, at, want[name])
		}
	}
}

var setting = snapshot.ID{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}

// deaf is an updater that ignores the timeout of its calls.
type deaf struct{ release chan struct{} }

func (u deaf) Update(context.Context, backend.Assignment) (backend.Proof, error) {
	<-u.release
	return backend.Proof{}, errors.New("too late")
}

func (u deaf) Observe(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	return u.Update(ctx, a)
}

// A cluster that hangs does not block calls of other plug-ins for a placement with the cluster's
// name.
func TestClusterNamedAsAPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet(), source: memory.NewSource(plain("v1"))}
		for _, name := range []string{"web", "watch", "inventory", "a"} {
			w.fleet.Add(placement.Cluster{Name: name})
		}
		u := deaf{make(chan struct{})}
		e := w.newEngine(fleet.Config{Name: "one", Updater: u})
		w.declare(e, smallPlacement("web"))
		w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(4)})
		stop := running(t, e)
		time.Sleep(time.Minute)
		w.now(plain("v2"))
		if s, err := e.Placement("web").Capture(t.Context()); err != nil || s.Index != 1 {
			t.Errorf("capture of a placement named as a cluster that hangs: %d, %v", s.Index, err)
		}
		if _, err := e.Preview(t.Context(), fleet.RunSpec{Placement: "web", Strategy: allAtOnce(1)}); err != nil {
			t.Errorf("preview: %v", err)
		}
		stop()
		close(u.release)
		synctest.Wait()
	})
}

// hungInventory is an inventory whose watch ignores the end of its context.
type hungInventory struct {
	*memory.Fleet
	release chan struct{}
}

func (i hungInventory) WatchClusters(context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		if yield(struct{}{}, nil) {
			<-i.release
		}
	}
}

// An engine ends soon after its context although a watch of the inventory hangs, and carries out
// its runs until then.
func TestHangingWatchDoesNotKeepTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		inventory := hungInventory{w.fleet, make(chan struct{})}
		e := w.newEngine(fleet.Config{Name: "one", Inventory: inventory})
		w.declare(e, smallPlacement("web"))
		stop := running(t, e)
		w.create(e, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1)})
		w.within(time.Minute, "a", stages.Completed)
		at := time.Now()
		stop()
		if d := time.Since(at); d > 2*time.Second {
			t.Errorf("Run returned %v after its context ended", d)
		}
		close(inventory.release)
		synctest.Wait()
	})
}
