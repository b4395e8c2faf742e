// Command metricgate holds a run at a gate until a metric is good: an approval.Authority asks a Prometheus for the
// error rate after the first cluster, and approves where it is low.
//
//	go run ./examples/metricgate http://prometheus:9090 'sum(rate(http_errors_total[5m]))' 0.01
//
// Change the query and the limit to what shows that a change is good, and reject where it surely is not: a rejection
// ends the run, or takes back what it brought, where the strategy says so.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// metric is an authority that approves while the value of a query is at most a limit.
type metric struct {
	server, query string
	limit         float64
}

// Decide answers a request. An approval holds at this moment only: where others have to approve, too, the metric is
// asked again after the last of them. An error is recorded, and the metric is asked again later.
func (m *metric) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	value, err := m.value(ctx)
	switch {
	case err != nil || value > m.limit:
		return approval.Decision{}, err // not yet
	default:
		comment := fmt.Sprintf("%s is %g, and may be %g", m.query, value, m.limit)
		by := approval.Identity{Name: "metric"}
		return approval.Decision{Verdict: approval.Approve, By: by, Comment: comment, PointInTime: true}, nil
	}
}

// value asks for the value of the query.
func (m *metric) value(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.server+"/api/v1/query?query="+url.QueryEscape(m.query), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("%s: %s: %w", m.server, resp.Status, err)
	}
	if n := len(answer.Data.Result); resp.StatusCode != http.StatusOK || n != 1 {
		return 0, fmt.Errorf("%s: %s, %d values: want one", m.server, resp.Status, n)
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: metricgate SERVER QUERY LIMIT")
	}
	limit, err := strconv.ParseFloat(os.Args[3], 64)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := rollOut(ctx, &metric{os.Args[1], os.Args[2], limit}, func(e stages.Event) { fmt.Println(e.Type, e.Cluster, e.Message) }); err != nil {
		log.Print(err)
	}
}

// rollOut carries out a run that the metric holds after its first cluster.
func rollOut(ctx context.Context, m *metric, show func(stages.Event)) error {
	clusters := memory.NewFleet(placement.Cluster{Name: "eu-1", Labels: map[string]string{"tier": "canary"}}, placement.Cluster{Name: "eu-2", Labels: map[string]string{"tier": "prod"}})
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: memory.NewSource(web), Authority: m})
	if err != nil {
		return err
	}
	go engine.Run(ctx)
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
