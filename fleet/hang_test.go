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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// stuck is the way to a member of which every call hangs, whatever its context
// says.
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

// completions are when the clusters of a run were done, since its start.
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

// hundred runs a hundred clusters at once, of which hung, if not empty, hangs
// until everything else is done and it is skipped.
func hundred(t *testing.T, hung string) (done map[string]time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 100)
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
			if err := e.Command(t.Context(), "r", stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: hung}); err != nil {
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

// A cluster that hangs, even one that ignores that its time is over, delays
// nobody else.
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

// probed is healthy once its status says so.
var probed = fleet.ProberFunc(func(_ context.Context, obj *unstructured.Unstructured) (fleet.Health, error) {
	ready, _, _ := unstructured.NestedBool(obj.Object, "status", "ready")
	return fleet.Health{Healthy: ready, Message: "not ready"}, nil
})

var setting = snapshot.ID{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}

// makeReady is what the controllers of a cluster do after a while.
func (w *world) makeReady(cluster string, ready bool) {
	w.t.Helper()
	if err := w.fleet.Cluster(cluster).SetStatus(setting, map[string]any{"ready": ready}); err != nil {
		w.t.Fatal(err)
	}
}

// blind hides what a backend can watch.
func blind(cfg *fleet.Config, w *world) {
	cfg.Store = struct{ backend.Store }{w.store}
	cfg.Inventory = struct{ backend.Inventory }{w.fleet}
	cfg.Dialer = backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		conn, err := w.fleet.Dial(ctx, c)
		return struct{ backend.Conn }{conn}, err
	})
}

// reactions are how long it took after each of five clusters became ready until
// the next was started, and what happened.
func reactions(t *testing.T, watch bool) (delays []time.Duration, what []string) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 5)
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

// With watches nothing is polled; without, the same happens later.
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

// churn runs four clusters one after the other, each of which is ready a minute
// after it was applied, and calls meanwhile while c00 is not ready.
func churn(t *testing.T, meanwhile func(w *world), then func(w *world, e *fleet.Engine, feed *feed)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 4)
		e := w.newEngine(fleet.Config{Name: "one", Prober: probed})
		w.declare(e, smallPlacement("p"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(1)})
		defer running(t, e)()
		feed := w.follow(true)
		defer feed.stop()
		feed.of("r", stages.ClusterApplied)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.controllers(ctx)
		meanwhile(w)
		feed.end("r")
		then(w, e, feed)
		w.tidy()
	})
}

// controllers make everything ready within a minute.
func (w *world) controllers(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for c := range w.fleet.Clusters(ctx) {
			_ = w.fleet.Cluster(c.Name).SetStatus(setting, map[string]any{"ready": true})
		}
	}
}

func (w *world) wantStates(run string, want ...stages.State) {
	w.t.Helper()
	got := w.outcome(run)["clusters"].(map[string]stages.State)
	for i, state := range want {
		if name := fmt.Sprintf("c%02d", i); got[name] != state {
			w.t.Errorf("%s is %s in run %s, want %s", name, got[name], run, state)
		}
	}
}

func TestClusterRemovedDuringARun(t *testing.T) {
	for _, name := range []string{"c00", "c02"} {
		t.Run(name, func(t *testing.T) {
			churn(t, func(w *world) { w.fleet.Remove(name) }, func(w *world, _ *fleet.Engine, _ *feed) {
				want := []stages.State{stages.Completed, stages.Completed, stages.Completed, stages.Completed}
				want[name[2]-'0'] = stages.Skipped
				w.wantStates("r", want...)
			})
		})
	}
}

func TestClusterThatJoinsIsCaughtUp(t *testing.T) {
	churn(t, func(w *world) {
		w.fleet.Add(placement.Cluster{Name: "c04"})
	}, func(w *world, e *fleet.Engine, feed *feed) {
		if _, known := w.outcome("r")["clusters"].(map[string]stages.State)["c04"]; known {
			w.t.Error("the run knows a cluster that came after it")
		}
		if _, err := w.fleet.Cluster("c04").Get(setting); !errors.Is(err, backend.ErrNotFound) {
			w.t.Errorf("c04 was updated: %v", err)
		}
		settle()
		if _, err := e.CatchUp(w.t.Context(), "r", "late", approval.Identity{Name: "ann"}); err != nil {
			w.t.Fatal(err)
		}
		feed.end("late")
		if _, err := w.fleet.Cluster("c04").Get(setting); err != nil {
			w.t.Errorf("c04 was not caught up: %v", err)
		}
		if n := len(w.outcome("late")["clusters"].(map[string]stages.State)); n != 1 {
			w.t.Errorf("the run that catches up has %d clusters, want 1", n)
		}
	})
}

func TestRelabelledClusterStays(t *testing.T) {
	churn(t, func(w *world) { w.fleet.Relabel("c03", map[string]string{"n": "0"}) }, func(w *world, _ *fleet.Engine, _ *feed) {
		w.wantStates("r", stages.Completed, stages.Completed, stages.Completed, stages.Completed)
	})
}

func TestUnreachableClusterYieldsItsSlot(t *testing.T) {
	churn(t, func(w *world) {
		w.fleet.SetDown("c01", true)
		time.AfterFunc(20*time.Minute, func() { w.fleet.SetDown("c01", false) })
	}, func(w *world, _ *fleet.Engine, feed *feed) {
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

// flaky runs a few clusters while calls to the store fail for a time.
func flaky(t *testing.T, from, to time.Duration, match func(faulty.Call) bool) (members map[string][]string, took time.Duration, calls int) {
	synctest.Test(t, func(t *testing.T) {
		w, start := smallWorld(t, 6), time.Now()
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

// A store that fails for ten seconds, or a minute, or only in what it writes
// or lists, costs that time and little work.
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
