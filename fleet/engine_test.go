package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// engineEnv is the tutorial's hub and members, embedded.
type engineEnv struct {
	t      *testing.T
	store  *memory.Store
	fleet  *memory.Fleet
	source *memory.Source
	// opening holds the keys of placements, see opened.
	opening map[string][]byte
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

func configMap(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": "test-namespace"},
		"data":     map[string]any{"key": value},
	}}
}

func newEngineEnv(t *testing.T) *engineEnv {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(namespace("test-namespace"), configMap("test-cm", "value1"))
	w.fleet.Add(placement.Cluster{Name: "member1", Labels: map[string]string{"environment": "canary", "order": "2"}})
	w.fleet.Add(placement.Cluster{Name: "member2", Labels: map[string]string{"environment": "staging"}})
	w.fleet.Add(placement.Cluster{Name: "member3", Labels: map[string]string{"environment": "canary", "order": "1"}})
	return w
}

// crowd adds enough clusters that the bindings of a placement no longer fit into its record.
func (w *engineEnv) crowd() {
	for i := range 20 {
		w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("z%02d", i)})
	}
}

func (w *engineEnv) engine(store backend.Store, name string) *fleet.Engine {
	w.t.Helper()
	e, err := fleet.New(fleet.Config{Store: store, Inventory: w.fleet, Dialer: w.fleet, Source: w.source, Name: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func tutorialPlacement() fleet.Placement {
	return fleet.Placement{
		Name:      "example-placement",
		Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
	}
}

func selects(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"environment": value}}
}

func tutorialStrategy() stages.Strategy {
	return stages.Strategy{Name: "example-strategy", Stages: []stages.Stage{
		{Name: "staging", Selector: selects("staging"), After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}},
		{Name: "canary", Selector: selects("canary"), SortKey: "order", After: []stages.Task{{Type: stages.Approval}}},
	}}
}

// value returns the actual value on a member.
func (w *engineEnv) value(cluster string) string {
	obj, err := w.fleet.Cluster(cluster).Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"})
	if err != nil {
		return err.Error()
	}
	v, _, _ := unstructured.NestedString(obj.Object, "data", "key")
	return v
}

// drive runs e until the run has ended, and approves every request.
func drive(ctx context.Context, t *testing.T, e *fleet.Engine, placement, run string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	f, err := follow(e, placement, "")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for ev, err := range f.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Run != run {
			continue
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s", ev.Type, ev.Stage, ev.Cluster)))
		if ev.Type == stages.ApprovalRequested {
			answer := stages.Command{Verb: stages.Decide, Name: ev.Request, By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}}
			if err := e.Run(run).Command(ctx, answer); err != nil {
				t.Fatal(err)
			}
		}
		if ev.Type == stages.RunCompleted || ev.Type == stages.RunFailed || ev.Type == stages.RunAborted || ev.Type == stages.RunSuperseded {
			break
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("a clean stop is an error: %v", err)
	}
	return lines
}

func TestTutorial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		e := w.engine(w.store, "one")
		ctx := t.Context()
		if err := e.PutPlacement(ctx, tutorialPlacement()); err != nil {
			t.Fatal(err)
		}
		if s, err := e.Placement("example-placement").Capture(ctx); err != nil || s.Index != 0 {
			t.Fatalf("first snapshot: index %d, %v", s.Index, err)
		}
		if err := w.source.Put(configMap("test-cm", "value2")); err != nil {
			t.Fatal(err)
		}
		s, err := e.Placement("example-placement").Capture(ctx)
		if err != nil || s.Index != 1 || s.Name() != "example-placement-1-snapshot" {
			t.Fatalf("second snapshot: %s, %v", s.Name(), err)
		}
		spec := fleet.RunSpec{Name: "example-run", Placement: "example-placement", Index: new(1), Strategy: tutorialStrategy()}
		preview, err := e.Preview(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		spec.Plan = preview.Plan.Digest
		if _, err := e.CreateRun(ctx, spec); err != nil {
			t.Fatal(err)
		}
		lines := drive(ctx, t, e, "example-placement", "example-run")
		t.Log(strings.Join(lines, "\n"))
		for _, m := range []string{"member1", "member2", "member3"} {
			if got := w.value(m); got != "value2" {
				t.Errorf("%s holds %s, want value2", m, got)
			}
		}
		spec.Name, spec.Index, spec.Plan = "example-run-2", new(0), ""
		if _, err := e.CreateRun(ctx, spec); err != nil {
			t.Fatal(err)
		}
		drive(ctx, t, e, "example-placement", "example-run-2")
		for _, m := range []string{"member1", "member2", "member3"} {
			if got := w.value(m); got != "value1" {
				t.Errorf("%s holds %s, want value1", m, got)
			}
		}
	})
}
