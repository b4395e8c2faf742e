package fleet_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// Each cluster is measured after it is healthy. The second one is bad, so the third gets nothing.
func Example_checks() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	clusters := memory.NewFleet()
	for _, name := range []string{"a", "b", "c"} {
		clusters.Add(placement.Cluster{Name: name})
	}
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}})
	errorRate := backend.MetricFunc(func(_ context.Context, q backend.MetricQuery) ([]backend.Sample, error) {
		value := 0.001
		if strings.Contains(q.Text, `cluster="b"`) {
			value = 0.2
		}
		return []backend.Sample{{Value: value}}, nil
	})

	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source,
		Metrics: map[string]backend.MetricProvider{"prometheus": errorRate}, // backend/metrics/prometheus has the real one
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		log.Fatal(err)
	}
	onePercent := 0.01
	strategy := stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{},
		ClusterChecks: []check.Check{{
			Name: "errors", Query: `rate(errors{cluster="{{cluster}}"}[{{window}}])`, Max: &onePercent, Interval: metav1.Duration{Duration: time.Second},
		}},
	}}}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: strategy}); err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()
	status, err := engine.Run("web-1").Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Run.State, status.Run.Reason)
	for _, c := range []string{"a", "b", "c"} {
		e, err := engine.Run("web-1").Explain(ctx, c)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c, e.State, e.Reason)
	}
	// Output:
	// Failed 1 cluster of stage all has failed, and none may
	// a Completed the cluster has snapshot 0: it was read back and is healthy
	// b Failed check errors is Failed: 0.2 is more than 0.01
	// c NotStarted the run ended before the cluster's turn: it is Failed
}

// A Job of the snapshot tests each cluster after that is healthy.
func Example_checkObjects() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	clusters := memory.NewFleet(placement.Cluster{Name: "a"})
	clusters.Cluster("a").React(func(obj *unstructured.Unstructured) map[string]any { // the controllers of the cluster
		if obj.GetKind() != "Job" {
			return nil
		}
		return map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True", "message": "12 tests passed"}}}
	})
	source := memory.NewSource(
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}},
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{
			"name": "smoke-test", "namespace": "web", "annotations": map[string]any{check.Annotation: "smoke"},
		}}},
	)
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source})
	if err != nil {
		log.Fatal(err)
	}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		log.Fatal(err)
	}
	strategy := stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{},
		ClusterChecks: []check.Check{{Name: "smoke", Object: "smoke", Expires: metav1.Duration{Duration: time.Hour}}},
	}}}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: strategy}); err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()
	status, err := engine.Run("web-1").Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Run.State)
	e, err := engine.Run("web-1").Explain(ctx, "a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a", e.State, e.Reason)
	for ctx.Err() == nil && len(clusters.Cluster("a").List("web")) > 0 { // the Job is deleted soon after its verdict was saved
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("Jobs on the cluster:", len(clusters.Cluster("a").List("web")))
	// Output:
	// Completed
	// a Completed the cluster has snapshot 0: it was read back and is healthy
	// Jobs on the cluster: 0
}
