// Package metricgate holds a run at a gate until a metric is good: an approval.Authority asks a Prometheus, after the
// first cluster, for the rate of errors, and approves where it is low. A host gives it to its engine:
//
//	fleet.Config{Authority: &metricgate.Metric{Server: "http://prometheus:9090", Query: query, Limit: 0.01}, ...}
//
// Change the query and the limit to what shows that a change is good, and reject where it surely is not: a rejection
// ends the run, and takes back what it brought where the strategy has a RollbackPolicy. The test runs such a host:
//
//	go test ./examples/metricgate
package metricgate

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/slipway-dev/slipway/approval"
)

// Metric is an approval.Authority that approves while the value of a query is at most a limit.
type Metric struct {
	// Server is the address of the Prometheus, such as http://prometheus:9090.
	Server string
	// Query has one value.
	Query string
	Limit float64
}

// Decide answers a request. An approval holds at this moment only: where others have to approve, too, the metric is
// asked again after the last of them. An error is recorded, and the metric is asked again later.
func (m *Metric) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	value, err := m.value(ctx)
	if err != nil || value > m.Limit {
		return approval.Decision{}, err // not yet
	}
	comment := fmt.Sprintf("%s is %g, and may be %g", m.Query, value, m.Limit)
	by := approval.Identity{Name: "metric"}
	return approval.Decision{Verdict: approval.Approve, By: by, Comment: comment, PointInTime: true}, nil
}

// value asks for the value of the query.
func (m *Metric) value(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Server+"/api/v1/query?query="+url.QueryEscape(m.Query), nil)
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
		return 0, fmt.Errorf("%s: %s: %w", m.Server, resp.Status, err)
	}
	if n := len(answer.Data.Result); resp.StatusCode != http.StatusOK || n != 1 {
		return 0, fmt.Errorf("%s: %s, %d values: want one", m.Server, resp.Status, n)
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}
