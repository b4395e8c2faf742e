package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// now makes an object what the source holds.
func (w *world) now(obj *unstructured.Unstructured) {
	w.t.Helper()
	if err := w.source.Put(obj); err != nil {
		w.t.Fatal(err)
	}
}

// deaf is an updater that ignores that its time is over.
type deaf struct{ release chan struct{} }

func (u deaf) Update(context.Context, fleet.Assignment) (fleet.Report, error) {
	<-u.release
	return fleet.Report{}, errors.New("too late")
}

func (u deaf) Observe(ctx context.Context, a fleet.Assignment) (fleet.Report, error) {
	return u.Update(ctx, a)
}

// A cluster that hangs keeps nobody from calling another plug-in for a placement
// that has the cluster's name.
func TestClusterNamedAsAPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memory.NewStore(), fleet: memory.NewFleet(), source: memory.NewSource(plain("v1"))}
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
		if s, err := e.Capture(t.Context(), "web"); err != nil || s.Index != 1 {
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

// hungInventory is an inventory whose watch ignores that it is over.
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

// An engine ends soon after its context although a watch of the inventory
// hangs, and carries its runs out meanwhile.
func TestHangingWatchDoesNotKeepTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 2)
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

// fickle plugs panic as long as they are told to.
type fickle struct {
	panics atomic.Bool
	times  atomic.Int32
}

func (f *fickle) maybe() {
	if f.panics.Load() {
		f.times.Add(1)
		panic("s3cr3t")
	}
}

type fickleInventory struct {
	*memory.Fleet
	f *fickle
}

func (i fickleInventory) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	i.f.maybe()
	return i.Fleet.Clusters(ctx)
}

func (i fickleInventory) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		i.f.maybe()
		i.Fleet.WatchClusters(ctx)(yield)
	}
}

type fickleUpdater struct{ f *fickle }

func (u fickleUpdater) Update(_ context.Context, a fleet.Assignment) (fleet.Report, error) {
	if a.Cluster.Name == "c00" {
		u.f.maybe()
	}
	return fleet.Report{Sent: true, Applied: true, Current: true, Healthy: true, Revision: a.Revision}, nil
}

func (u fickleUpdater) Observe(ctx context.Context, a fleet.Assignment) (fleet.Report, error) {
	return u.Update(ctx, a)
}

// plugs are the ways for a plug-in to panic. run is the run that needs it.
var plugs = map[string]func(w *world, f *fickle, cfg *fleet.Config){
	"inventory": func(w *world, f *fickle, cfg *fleet.Config) { cfg.Inventory = fickleInventory{w.fleet, f} },
	"source": func(w *world, f *fickle, cfg *fleet.Config) {
		cfg.Source = snapshot.SourceFunc(func(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
			f.maybe()
			return w.source.Objects(ctx, q)
		})
	},
	"authority": func(_ *world, f *fickle, cfg *fleet.Config) {
		cfg.Authority = approval.Func(func(_ context.Context, r approval.Request) (approval.Decision, error) {
			f.maybe()
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "bot"}, Binding: r.Binding}, nil
		})
	},
	"updater": func(_ *world, f *fickle, cfg *fleet.Config) { cfg.Updater = fickleUpdater{f} },
	"prober": func(_ *world, f *fickle, cfg *fleet.Config) {
		cfg.Prober = fleet.ProberFunc(func(_ context.Context, obj *unstructured.Unstructured) (fleet.Health, error) {
			if value, _, _ := unstructured.NestedString(obj.Object, "spec", "value"); value == "v1" {
				f.maybe()
			}
			return fleet.Health{Healthy: true}, nil
		})
	},
}

// Threat T23: a plug-in that panics takes neither the host nor the engine along.
// What needs it waits, or fails and is tried again; everything else goes on.
func TestT23PanickingPluginsOfAnEngine(t *testing.T) {
	for role, plug := range plugs {
		t.Run(role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, f := smallWorld(t, 3), new(fickle)
				cfg := fleet.Config{Name: "one", Store: w.store, Inventory: w.fleet, Dialer: w.fleet, Source: w.source}
				plug(w, f, &cfg)
				e := must(fleet.New(cfg))(t)
				h := w.newEngine(fleet.Config{Name: "host"})
				var after []stages.Task
				if role == "authority" {
					after = append(after, stages.Task{Type: stages.Approval})
				}
				for _, name := range []string{"needs", "other"} {
					w.declare(h, smallPlacement(name))
				}
				w.create(h, fleet.RunSpec{Name: "needs", Placement: "needs", Strategy: allAtOnce(3, after...)})
				w.now(plain("v2"))
				w.create(h, fleet.RunSpec{Name: "other", Placement: "other", Strategy: allAtOnce(3)})
				f.panics.Store(true)
				stop := running(t, e)
				defer stop()
				f.ask(w, e, role)
				time.Sleep(10 * time.Minute)
				if f.times.Load() == 0 {
					t.Error("nothing has panicked: the test does not test enough")
				}
				if role != "updater" {
					w.within(time.Second, "other", stages.Completed)
				}
				if done := w.happened("needs", stages.ClusterCompleted); role == "updater" && done != 2 {
					t.Errorf("%d clusters are done while the updater of another panics, want 2", done)
				}
				f.panics.Store(false)
				w.within(time.Hour, "needs", stages.Completed)
				w.within(time.Hour, "other", stages.Completed)
			})
		})
	}
}

// ask calls what asks a plug-in that panics: the error says so, and nothing of
// what it panicked with.
func (f *fickle) ask(w *world, e *fleet.Engine, role string) {
	if role != "inventory" && role != "source" {
		return
	}
	_, err := e.CreateRun(w.t.Context(), fleet.RunSpec{Name: "never", Placement: "other", Strategy: allAtOnce(1)})
	if !errors.Is(err, backend.ErrPermanent) || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), role) {
		w.t.Errorf("a run where the %s panics: %v", role, err)
	}
}

// A run that nobody can drive is not taken again and again: the attempts are
// ever rarer. It can be deleted nevertheless.
func TestDamagedRunIsRarelyTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clusters = 33 // more than the run's record holds in flight
		w := smallWorld(t, clusters)
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
		pages := w.keys("flight/")
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
		if err := h.DeleteRun(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: allAtOnce(1)})
		w.within(time.Minute, "a", stages.Completed)
	})
}

// Where a second run is rejected, one whose creator died before it was admitted
// does not start later, when the placement is free, and costs little.
func TestRejectedRunDoesNotStartLater(t *testing.T) {
	t.Parallel()
	rejected := 0
	for k := 1; k < 12; k++ {
		synctest.Test(t, func(t *testing.T) {
			defer tellIn(t, "crash at write %d", k)
			w := smallWorld(t, 1)
			h := w.newEngine(fleet.Config{Name: "host"})
			p := smallPlacement("web")
			p.Admission = stages.RejectRun
			w.declare(h, p)
			must(h.Capture(t.Context(), "web"))(t)
			x := w.newEngine(fleet.Config{Name: "x", Store: faulty.NewPlan(faulty.CrashAfter(k)).Store(w.store)})
			_, crash := x.CreateRun(t.Context(), fleet.RunSpec{Name: "b", Placement: "web", Index: new(0), Strategy: allAtOnce(1)})
			if len(w.keys("run/")) == 0 || crash == nil {
				return
			}
			_, second := h.CreateRun(t.Context(), fleet.RunSpec{Name: "a", Placement: "web", Index: new(0), Strategy: allAtOnce(1, stages.Task{Type: stages.Approval})})
			defer running(t, h)()
			time.Sleep(time.Hour)
			if second != nil {
				w.within(time.Second, "b", stages.Completed) // it had been admitted
				return
			}
			rejected++
			if err := h.Command(t.Context(), "a", stages.Command{Verb: stages.Abort}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n := w.happened("b", stages.RunTaken); n > 36 || w.happened("b", stages.RunStarted) > 0 {
				t.Errorf("b was taken %d times, and started %d times", n, w.happened("b", stages.RunStarted))
			}
			if s, err := h.Status(t.Context(), "b"); !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("b is %s, want it to be gone: %v", s.Run.State, err)
			}
		})
	}
	if rejected == 0 {
		t.Error("no run was rejected: the test does not test enough")
	}
}

// Three hundred clusters that cannot be reached and a store that is down for
// twenty minutes cost little, and everything is fine afterwards.
func TestStoreAndClustersAreDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := smallWorld(t, 300)
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
		if puts.Load() > 260 || dials.Load() > 310 || dials.Load() < 300 { // a try every 5 s
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
