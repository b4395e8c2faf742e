package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/metrics"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// TestLeaseAndQueueMetrics checks the metrics of a run that waits for an engine, of a run
// that an engine drives, and of its queue.
func TestLeaseAndQueueMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	clusters := memory.NewFleet(placement.Cluster{Name: "a"})
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}})
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source, Name: "one", Queues: metrics.Queues(registry),
	})
	if err != nil {
		t.Fatal(err)
	}
	registry.MustRegister(metrics.New(engine))
	if err := engine.PutPlacement(t.Context(), fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		t.Fatal(err)
	}
	strategy := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, Before: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}}}}
	if _, err := engine.CreateRun(t.Context(), fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: strategy}); err != nil {
		t.Fatal(err)
	}
	if got := gathered(t, registry); got["slipway_runs_waiting"] != 1 || got["slipway_runs_held one"] != 0 {
		t.Errorf("before an engine runs: %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = engine.Start(ctx) }()
	defer func() { cancel(); <-ended }()
	got := map[string]float64{}
	for deadline := time.Now().Add(30 * time.Second); got["slipway_runs_held one"] != 1 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		got = gathered(t, registry)
	}
	if got["slipway_runs_held one"] != 1 || got["slipway_runs_waiting"] != 0 || got["slipway_leases_overdue"] != 0 || got["slipway_runs_unreadable"] != 0 {
		t.Errorf("while an engine runs: %v", got)
	}
	for _, queue := range []string{"runs", "placements", "checks"} {
		if _, there := got["slipway_queue_depth "+queue]; !there {
			t.Errorf("queue %s has no depth: %v", queue, got)
		}
	}
	if got["slipway_queue_adds_total runs"] == 0 || got["slipway_queue_latency_seconds runs"] == 0 {
		t.Errorf("nothing was due: %v", got)
	}
}

// gathered returns the values of all metrics, by name and labels. The value of a histogram is its
// number of samples.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

type broken struct{}

func (broken) Leases(context.Context) ([]fleet.Lease, error) {
	return nil, errors.New("the store is away")
}

// TestAStoreThatCannotBeReadFailsTheScrape: a number that is not known is not 0.
func TestAStoreThatCannotBeReadFailsTheScrape(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(broken{}))
	if _, err := registry.Gather(); err == nil || !strings.Contains(err.Error(), "the store is away") {
		t.Errorf("the error is %v", err)
	}
}
