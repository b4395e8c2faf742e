package kube_test

import (
	"context"
	"iter"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube"
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
func newRollout(t *testing.T, name string, cfg *rest.Config) *rollout {
	t.Helper()
	configs := func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }
	inventory := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) { yield(placement.Cluster{Name: "one"}, nil) }
	})
	source := memory.NewSource()
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: inventory, Source: source,
		Dialer: kube.NewDialer(configs, kube.ConnOptions{}), Poll: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &rollout{t, name, engine, source}
}

// put makes objects those of the placement.
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

// start lets the engine run until the test ends.
func (r *rollout) start() {
	ctx, stop := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.engine.Run(ctx) }()
	r.t.Cleanup(func() { stop(); <-done })
}

// run carries out one run.
func (r *rollout) run(name string) fleet.Status {
	r.t.Helper()
	all := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := r.engine.CreateRun(r.t.Context(), fleet.RunSpec{Name: name, Placement: r.name, Strategy: all}); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	status, err := r.engine.Wait(ctx, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return status
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

type logging struct {
	t    *testing.T
	next http.RoundTripper
}

func (l logging) RoundTrip(r *http.Request) (*http.Response, error) {
	l.t.Log(time.Now().Format("05.000"), r.Method, r.URL.RequestURI())
	return l.next.RoundTrip(r)
}

func TestRequestsOfAnEngine(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	cfg := s.Config()
	var counts kubeenv.Counts
	cfg.Wrap(counts.Wrap)
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { return logging{t, rt} })
	r := newRollout(t, ns, cfg)
	r.put(configMap(ns, "a", "v", "1"), configMap(ns, "b", "v", "1"), configMap(ns, "c", "v", "1"))
	r.start()
	for _, run := range []string{"first", "second", "third"} {
		counts.Reset()
		status := r.run(run)
		t.Log(run, status.Run.State, counts.Requests(), counts.Watches(), counts.Calls())
		time.Sleep(2 * time.Second)
		t.Log(run, status.Run.State, counts.Requests(), counts.Watches(), counts.Calls())
		if run == "first" {
			r.put(configMap(ns, "a", "v", "2"), configMap(ns, "b", "v", "2"), configMap(ns, "c", "v", "2"))
		}
	}
}
