package celhealth_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	celhealth "github.com/slipway-dev/slipway/health/cel"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const databases = `
- group: example.io
  kind: Database
  ready: self.status.phase == 'Ready'
  failed: self.status.phase == 'Broken'
  message: self.status.?reason.orValue('phase ' + self.status.phase)
`

func custom(kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": kind, "metadata": map[string]any{"name": "main"},
	}}
}

// engineEnv is an engine that rolls out a Database with a rule and a Cache without one to a
// cluster.
type engineEnv struct {
	t       *testing.T
	cluster *memory.Cluster
	engine  *fleet.Engine
}

func newEngineEnv(t *testing.T, own ...health.Rule) *engineEnv {
	t.Helper()
	clusters := memory.NewFleet()
	w := &engineEnv{t: t, cluster: clusters.Add(placement.Cluster{Name: "eu-1"})}
	source := memory.NewSource(custom("Database"), custom("Cache"))
	var err error
	w.engine, err = fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source, Prober: prober(t, databases, celhealth.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := fleet.Placement{Name: "data", ApplyStrategy: apply.Strategy{Health: own}}
	for _, kind := range []string{"Database", "Cache"} {
		p.Selectors = append(p.Selectors, snapshot.Selector{Group: "example.io", Version: "v1", Kind: kind, Name: "main"})
	}
	if err := w.engine.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	strategy := stages.Strategy{Attempts: 20, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := w.engine.CreateRun(t.Context(), fleet.RunSpec{Name: "run", Placement: "data", Strategy: strategy}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.engine.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w
}

// status writes the status of an object on the cluster, and returns the run a minute later.
func (w *engineEnv) status(kind string, status map[string]any) fleet.Status {
	w.t.Helper()
	if err := w.cluster.SetStatus(snapshot.IDOf(custom(kind)), status); err != nil {
		w.t.Fatal(err)
	}
	return w.later()
}

func (w *engineEnv) later() fleet.Status {
	w.t.Helper()
	time.Sleep(time.Minute)
	s, err := w.engine.Run("run").Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func TestARunCompletesByARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		if s := w.later(); s.Run.State != stages.Running {
			t.Fatalf("without a status of the database the run is %s", s.Run.State)
		}
		stalled := map[string]any{"conditions": []any{map[string]any{"type": "Reconciling", "status": "True", "message": "warms up"}}}
		w.status("Cache", stalled)
		if s := w.status("Database", map[string]any{"phase": "Ready"}); s.Run.State != stages.Running {
			t.Fatalf("while kstatus calls the cache InProgress the run is %s", s.Run.State)
		}
		if s := w.status("Cache", map[string]any{}); s.Run.State != stages.Completed {
			t.Errorf("the run is %s: %s", s.Run.State, s.Run.Reason)
		}
	})
}

func TestARunFailsByARule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		w.later()
		w.status("Database", map[string]any{"phase": "Broken", "reason": "the disk is full"})
		x, err := w.engine.Run("run").Explain(t.Context(), "eu-1")
		if err != nil {
			t.Fatal(err)
		}
		if x.Attempt < 2 || !strings.Contains(fmt.Sprint(x.Waiting), "the disk is full") {
			t.Errorf("after a minute: %+v", x)
		}
		time.Sleep(time.Hour) // the cluster is tried again before it fails
		if s := w.later(); s.Run.State != stages.Failed {
			t.Errorf("the run is %s", s.Run.State)
		}
	})
}

func TestARunCompletesByARuleOfItsPlacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t, health.Rule{Group: "example.io", Kind: "Database", Ready: "self.status.accepts"})
		w.later()
		if s := w.status("Database", map[string]any{"phase": "Ready", "accepts": false}); s.Run.State != stages.Running {
			t.Fatalf("by the rule of the host the run is %s", s.Run.State)
		}
		if s := w.status("Database", map[string]any{"phase": "Broken", "accepts": true}); s.Run.State != stages.Completed {
			t.Errorf("the run is %s: %s", s.Run.State, s.Run.Reason)
		}
	})
}

func TestAPlacementWhoseRulesDoNotCompileIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		p := fleet.Placement{Name: "other", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "x"}}}
		p.ApplyStrategy.Health = []health.Rule{{Kind: "A", Ready: "true"}, {Kind: "B", Ready: "slef.ok"}}
		err := w.engine.PutPlacement(t.Context(), p)
		want := `applyStrategy.health[1].ready: Invalid value: "slef.ok": 1:1: undeclared reference to 'slef'`
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
