package fleet_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// fickle makes plug-ins panic while panics is set.
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

func (u fickleUpdater) Update(_ context.Context, a backend.Assignment) (backend.Proof, error) {
	if a.Cluster.Name == "c00" {
		u.f.maybe()
	}
	return backend.Proof{Sent: true, Applied: true, Current: true, Healthy: true, Revision: a.Revision}, nil
}

func (u fickleUpdater) Observe(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	return u.Update(ctx, a)
}

// plugs are the ways for a plug-in to panic. run is the run that needs it.
var plugs = map[string]func(w *engineEnv, f *fickle, cfg *fleet.Config){
	"inventory": func(w *engineEnv, f *fickle, cfg *fleet.Config) { cfg.Inventory = fickleInventory{w.fleet, f} },
	"source": func(w *engineEnv, f *fickle, cfg *fleet.Config) {
		cfg.Source = snapshot.SourceFunc(func(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
			f.maybe()
			return w.source.Objects(ctx, q)
		})
	},
	"authority": func(_ *engineEnv, f *fickle, cfg *fleet.Config) {
		cfg.Authority = approval.Func(func(_ context.Context, r approval.Request) (approval.Decision, error) {
			f.maybe()
			return approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "bot"}, Binding: r.Binding}, nil
		})
	},
	"updater": func(_ *engineEnv, f *fickle, cfg *fleet.Config) { cfg.Updater = fickleUpdater{f} },
	"prober": func(_ *engineEnv, f *fickle, cfg *fleet.Config) {
		cfg.Prober = health.ProberFunc(func(_ context.Context, obj *unstructured.Unstructured) (health.Status, error) {
			if value, _, _ := unstructured.NestedString(obj.Object, "spec", "value"); value == "v1" {
				f.maybe()
			}
			return health.Status{Healthy: true}, nil
		})
	},
}

// Threat T23: a plug-in that panics crashes neither the host nor the engine. Work that needs the
// plug-in waits, or fails and is retried; everything else continues.
func TestT23PanickingPluginsOfAnEngine(t *testing.T) {
	for role, plug := range plugs {
		t.Run(role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, f := newSmallEnv(t, 3), new(fickle)
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

// ask makes a call that needs a plug-in which panics. The error names the plug-in, but does not
// contain the value of the panic.
func (f *fickle) ask(w *engineEnv, e *fleet.Engine, role string) {
	if role != "inventory" && role != "source" {
		return
	}
	_, err := e.CreateRun(w.t.Context(), fleet.RunSpec{Name: "never", Placement: "other", Strategy: allAtOnce(1)})
	if !errors.Is(err, backend.ErrPermanent) || strings.Contains(err.Error(), "s3cr3t") || !strings.Contains(err.Error(), role) {
		w.t.Errorf("a run where the %s panics: %v", role, err)
	}
}
