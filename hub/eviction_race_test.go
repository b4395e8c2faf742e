package hub_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/hub/internal/placements"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// interruptedStore is a store that calls a function before the nth read with a marked context.
type interruptedStore struct {
	backend.Store
	reads atomic.Int64
	nth   int64
	do    func()
	once  sync.Once
}

type ofEviction struct{}

func (s *interruptedStore) read(ctx context.Context) {
	if ctx.Value(ofEviction{}) != nil && s.reads.Add(1) == s.nth {
		s.once.Do(s.do)
	}
}

func (s *interruptedStore) Get(ctx context.Context, key string) (backend.Record, error) {
	s.read(ctx)
	return s.Store.Get(ctx, key)
}

func (s *interruptedStore) Put(ctx context.Context, key string, value []byte, old backend.Revision) (backend.Revision, error) {
	s.read(ctx)
	return s.Store.Put(ctx, key, value, old)
}

// evictionEnv is a placement on two clusters. The run e.1 is about to evict the first.
type evictionEnv struct {
	*testing.T
	store  *interruptedStore
	engine *fleet.Engine
	object *unstructured.Unstructured
}

func newEvictionEnv(t *testing.T) *evictionEnv {
	t.Helper()
	env := &evictionEnv{T: t, store: &interruptedStore{Store: memory.NewStore()}}
	clusters := memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "m1"})
	clusters.Add(placement.Cluster{Name: "m2"})
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}})
	newEngine := func(name string, store backend.Store) *fleet.Engine {
		e, err := fleet.New(fleet.Config{Name: name, Store: store, Inventory: clusters, Dialer: clusters, Source: source})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	env.engine = newEngine("hub", env.store)
	driver := newEngine("driver", env.store.Store)
	env.object = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "metadata": map[string]any{"name": "p", "uid": "u"},
		"spec": map[string]any{
			"resourceSelectors": []any{map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}},
			"strategy":          map[string]any{"type": "External"},
		},
	}}
	declared := fleet.Placement{Name: "p", Owner: "u", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := env.engine.PutPlacement(t.Context(), declared); err != nil {
		t.Fatal(err)
	}
	drive := func(run string) {
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error)
		go func() { ended <- driver.Start(ctx) }()
		patient, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if s, err := driver.Run(run).Wait(patient); err != nil { // the placement has recorded the end, too
			t.Errorf("run %s does not end: %s, %v", run, s.Run.State, err)
		}
		stop()
		<-ended
	}
	env.create("r", "", stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}})
	drive("r")
	env.create("e.1", "", evictionOf("m1"))
	env.store.do = func() { drive("e.1") }
	return env
}

func evictionOf(cluster string) stages.Strategy {
	return stages.Strategy{Name: "eviction", Stages: []stages.Stage{{Name: "none"}}, Removal: stages.Removal{Only: []string{cluster}}}
}

func (e *evictionEnv) create(run, version string, strategy stages.Strategy) {
	e.Helper()
	if _, err := e.engine.CreateRun(e.Context(), fleet.RunSpec{Name: run, Placement: "p", Version: version, Strategy: strategy}); err != nil {
		e.Fatal(err)
	}
}

// evict judges the eviction of a cluster under minAvailable 1 and records the run. It reports
// whether the run was recorded.
func (e *evictionEnv) evict(ctx context.Context, cluster string) (bool, error) {
	r := placements.New(&placements.Reconciler{Engine: e.engine})
	facts, err := r.Evictable(ctx, e.object, cluster)
	if err != nil {
		return false, err
	}
	least := intstr.FromInt32(1)
	facts.Budget = &v1beta1.PlacementDisruptionBudgetSpec{MinAvailable: &least}
	if answer := status.JudgeEviction(facts); !answer.Carry {
		return false, nil
	}
	_, err = e.engine.CreateRun(ctx, fleet.RunSpec{Name: "e.2", Placement: "p", Version: facts.Version, Strategy: evictionOf(cluster)})
	return err == nil, err
}

// TestAnEvictionIsDecidedOnOneState ends the removal from the first cluster between any two reads
// or writes of the eviction from the second. The budget is never exceeded.
func TestAnEvictionIsDecidedOnOneState(t *testing.T) {
	t.Parallel()
	for n := int64(1); ; n++ {
		env := newEvictionEnv(t)
		env.store.nth = n
		evicted, err := env.evict(context.WithValue(t.Context(), ofEviction{}, true), "m2")
		reads := env.store.reads.Load()
		switch {
		case evicted:
			t.Errorf("the removal ends before read %d of %d: both clusters are evicted", n, reads)
		case err != nil && !errors.Is(err, backend.ErrConflict):
			t.Errorf("the removal ends before read %d: %v", n, err)
		}
		if reads < n {
			t.Logf("the removal was ended before each of %d reads", reads)
			return
		}
		if n > 100 {
			t.Fatal("the eviction reads without end")
		}
	}
}

// TestAnEvictionIsRefusedAfterAnyChange: if any run is created or ends after an eviction was
// judged, the run of the eviction is not recorded, and the eviction must be judged again.
func TestAnEvictionIsRefusedAfterAnyChange(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*evictionEnv){
		"a run is created": func(e *evictionEnv) { e.create("e.3", "", evictionOf("m2")) },
		"a run ends":       func(e *evictionEnv) { e.store.do() },
		"a run is deleted": func(e *evictionEnv) { e.must(e.engine.Run("e.1").Delete(e.Context(), true)) },
		"a deletion begins": func(e *evictionEnv) {
			e.must(e.engine.Placement("p").Delete(e.Context(), fleet.DeleteOptions{Force: true}))
		},
		"nothing is changed": func(*evictionEnv) {},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEvictionEnv(t)
			r := placements.New(&placements.Reconciler{Engine: env.engine})
			facts, err := r.Evictable(t.Context(), env.object, "m1")
			if err != nil {
				t.Fatal(err)
			}
			change(env)
			changed := name != "nothing is changed"
			if current, err := r.IsCurrent(t.Context(), env.object, facts); err != nil || current == changed {
				t.Errorf("the facts are current: %t, %v", current, err)
			}
			_, err = env.engine.CreateRun(t.Context(), fleet.RunSpec{Name: "e.2", Placement: "p", Version: facts.Version, Strategy: evictionOf("m2")})
			if refused := errors.Is(err, backend.ErrConflict) || errors.Is(err, errdef.ErrDeleting); refused != changed || err != nil && !refused {
				t.Errorf("the run is refused with %v", err)
			}
			if _, err := env.engine.Run("e.2").Status(t.Context()); errors.Is(err, backend.ErrNotFound) != changed {
				t.Errorf("the record of the run: %v", err)
			}
			if admitted, err := r.IsAdmitted(t.Context(), "p", "e.2"); err != nil || admitted == changed {
				t.Errorf("the run is admitted: %t, %v", admitted, err)
			}
		})
	}
}

func (e *evictionEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(fmt.Errorf("changing the placement: %w", err))
	}
}
