package member_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// rollout is an engine with its state in memory, and one real member.
type rollout struct {
	t      *testing.T
	name   string
	engine *fleet.Engine
	source *memory.Source
}

// newRollout returns an engine that reaches its member with cfg.
func newRollout(t *testing.T, name string, cfg *rest.Config, cluster placement.Cluster) *rollout {
	t.Helper()
	return newRolloutOf(t, name, func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }, cluster)
}

func newRolloutOf(t *testing.T, name string, configs member.ConfigFunc, cluster placement.Cluster) *rollout {
	t.Helper()
	return newRolloutOver(t, name, fleet.Config{Store: memory.NewStore(), Dialer: member.NewDialer(configs, member.Options{})}, cluster)
}

// newRolloutOver returns an engine with a store and a dialer.
func newRolloutOver(t *testing.T, name string, cfg fleet.Config, cluster placement.Cluster) *rollout {
	t.Helper()
	inventory := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) { yield(cluster, nil) }
	})
	source := memory.NewSource()
	cfg.Inventory, cfg.Source, cfg.Poll = inventory, source, 100*time.Millisecond
	engine, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &rollout{t, name, engine, source}
}

// put sets the objects of the placement.
func (r *rollout) put(objects ...*unstructured.Unstructured) {
	r.t.Helper()
	var selectors []snapshot.Selector
	for _, o := range objects {
		if err := r.source.Put(o); err != nil {
			r.t.Fatal(err)
		}
		id := snapshot.IDOf(o)
		selectors = append(selectors, snapshot.Selector{Group: id.Group, Version: id.Version, Kind: id.Kind, Name: id.Name})
	}
	if err := r.engine.PutPlacement(r.t.Context(), fleet.Placement{Name: r.name, Selectors: selectors}); err != nil {
		r.t.Fatal(err)
	}
}

// start runs the engine until the end of the test or the call of the returned function.
func (r *rollout) start() (end func()) {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.engine.Start(ctx) }()
	end = func() { stop(); <-done }
	r.t.Cleanup(end)
	return end
}

func allClusters() stages.Strategy {
	return stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
}

// begin creates a run.
func (r *rollout) begin(name string) {
	r.t.Helper()
	if _, err := r.engine.CreateRun(r.t.Context(), fleet.RunSpec{Name: name, Placement: r.name, Strategy: allClusters()}); err != nil {
		r.t.Fatal(err)
	}
}

// wait waits for the end of a run.
func (r *rollout) wait(name string) fleet.Status {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	status, err := r.engine.Run(name).Wait(ctx)
	if err != nil {
		r.t.Fatalf("%v: %s", err, r.explain(name))
	}
	return status
}

func (r *rollout) run(name string) fleet.Status {
	r.t.Helper()
	r.begin(name)
	return r.wait(name)
}

// explain returns all that the engine says of a run.
func (r *rollout) explain(name string) string {
	status, err := r.engine.Run(name).Status(r.t.Context())
	return fmt.Sprintf("%+v %v", status, err)
}

func configMap(namespace, name string, data ...string) *unstructured.Unstructured {
	d := map[string]any{}
	for i := 0; i+1 < len(data); i += 2 {
		d[data[i]] = data[i+1]
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": namespace}, "data": d,
	}}
}

// TestAnUpdateTakesFewRequests counts the requests of an engine to a member for three objects. A
// client that only reads and applies them makes 6 requests, and 3 if nothing changed.
func TestAnUpdateTakesFewRequests(t *testing.T) {
	s := clusters.Server(t, "two")
	ns := s.Namespace(t)
	cfg := s.Config()
	var counts kubeenv.Counts
	cfg.Wrap(counts.Wrap)
	r := newRollout(t, ns, cfg, placement.Cluster{Name: "one"})
	r.start()
	for _, step := range []struct {
		run, value string
		most       int
	}{{"first", "1", 11}, {"second", "2", 9}, {"third", "2", 5}} {
		r.put(configMap(ns, "a", "v", step.value), configMap(ns, "b", "v", step.value), configMap(ns, "c", "v", step.value))
		counts.Reset()
		if status := r.run(step.run); status.Run.State != stages.Completed {
			t.Fatalf("%s is %s: %s", step.run, status.Run.State, r.explain(step.run))
		}
		if n := counts.Requests() + counts.Watches(); n > step.most {
			t.Errorf("%s took %d requests, want at most %d: %v", step.run, n, step.most, counts.Calls())
		}
	}
	if obj, err := connTo(t, s).Get(t.Context(), snapshot.IDOf(configMap(ns, "a"))); err != nil || len(obj.GetLabels()) > 0 {
		t.Errorf("what was applied has labels that were not asked for: %v, %v", obj, err)
	}
}
