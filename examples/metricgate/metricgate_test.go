package metricgate

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// answers is a Prometheus that gives the answers in their order, and the last one again and again.
func answers(t *testing.T, asked *atomic.Int64, all ...string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" || r.URL.Query().Get("query") != "errors" {
			http.NotFound(w, r)
			return
		}
		n := min(int(asked.Add(1)), len(all))
		fmt.Fprint(w, all[n-1])
	}))
	t.Cleanup(s.Close)
	return s
}

func value(v string) string {
	return fmt.Sprintf(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1767225600,%q]}]}}`, v)
}

// The gate opens when the metric is at most the limit: not before, and not where there is no answer.
func TestTheGateOpensWhenTheMetricIsGood(t *testing.T) {
	var asked atomic.Int64
	s := answers(t, &asked, value("0.5"), `{"status":"success","data":{"result":[]}}`, value("0.01"))
	var events []string
	err := rollOut(t.Context(), &Metric{s.URL, "errors", 0.02}, func(e stages.Event) {
		events = append(events, strings.TrimSpace(fmt.Sprint(e.Type, " ", e.Cluster, e.By, " ", e.Message)))
		if e.Type == stages.ApprovalAccepted && asked.Load() < 3 {
			t.Errorf("accepted after %d answers", asked.Load())
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(events, "\n")
	for _, want := range []string{"ApprovalAccepted metric errors is 0.01, and may be 0.02", "ClusterCompleted eu-2", "RunCompleted"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

// What the server says besides one value is an error, which decides nothing.
func TestAServerThatDoesNotAnswerDecidesNothing(t *testing.T) {
	for _, text := range []string{"", "{}", "<html>", value("x"), `{"data":{"result":[{"value":[1,"1"]},{"value":[1,"1"]}]}}`} {
		var asked atomic.Int64
		m := &Metric{answers(t, &asked, text).URL, "errors", 1}
		if d, err := m.Decide(t.Context(), approval.Request{}); err == nil || d.Verdict != "" {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}

// rollOut carries out a run that the metric holds after its first cluster.
func rollOut(ctx context.Context, m *Metric, show func(stages.Event)) error {
	clusters := memory.NewFleet(placement.Cluster{Name: "eu-1", Labels: map[string]string{"tier": "canary"}}, placement.Cluster{Name: "eu-2", Labels: map[string]string{"tier": "prod"}})
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: memory.NewSource(web), Authority: m})
	if err != nil {
		return err
	}
	go func() { _ = engine.Run(ctx) }()
	placed := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, placed); err != nil {
		return err
	}
	tier := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name}}
	}
	strategy := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Selector: tier("canary"), After: []stages.Task{{Type: stages.Approval}}},
		{Name: "prod", Selector: tier("prod")},
	}}
	if _, err := engine.EnsureRun(ctx, fleet.RunSpec{Name: "web-v1", Placement: "web", Strategy: strategy}); err != nil {
		return err
	}
	events, err := engine.FollowRun("web-v1", "")
	if err != nil {
		return err
	}
	for e, err := range events.Events(ctx) {
		if err != nil {
			return err
		}
		show(e)
	}
	return nil
}
