package metricgate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/backend/metrics/prometheus"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// gated returns a stage of the clusters with a label. After the stage, five measurements of a
// query, one a second, must be at most limit. A greater value ends the run, and rolls it back if
// the strategy has a RollbackPolicy.
func gated(tier, query string, limit float64) stages.Stage {
	return stages.Stage{
		Name: tier, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}},
		After: []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{
			Name: "errors", Query: query, Max: &limit, Interval: metav1.Duration{Duration: time.Second}, Count: 5,
		}}}},
	}
}

// TestTheRateOfErrorsHoldsARun: the second stage gets the change only if the error rate is low
// after the first stage.
func TestTheRateOfErrorsHoldsARun(t *testing.T) {
	for rate, want := range map[string]stages.State{"0.001": stages.Completed, "0.2": stages.Failed} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,%q]}]}}`, rate)
		}))
		defer server.Close()
		provider, err := prometheus.New(prometheus.Config{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		clusters := memory.NewFleet(
			placement.Cluster{Name: "a", Labels: map[string]string{"tier": "canary"}}, placement.Cluster{Name: "b", Labels: map[string]string{"tier": "prod"}},
		)
		source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}})
		engine, err := fleet.New(fleet.Config{
			Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source,
			Metrics: map[string]backend.MetricProvider{"prometheus": provider},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.PutPlacement(t.Context(), fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}); err != nil {
			t.Fatal(err)
		}
		const query = "sum(rate(errors_total[1m])) / sum(rate(requests_total[1m]))"
		strategy := stages.Strategy{Stages: []stages.Stage{gated("canary", query, 0.01), gated("prod", query, 0.01)}}
		if _, err := engine.CreateRun(t.Context(), fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: strategy}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = engine.Start(ctx) }()
		s, err := engine.Run("shop-1").Wait(ctx)
		cancel()
		<-ended
		_, missing := clusters.Cluster("b").Get(snapshot.ID{Version: "v1", Kind: "Namespace", Name: "shop"})
		if err != nil || s.Run.State != want || (missing == nil) != (want == stages.Completed) {
			t.Errorf("rate %s: the run is %s (%s), %v; the second cluster: %v", rate, s.Run.State, s.Run.Reason, err, missing)
		}
	}
}
