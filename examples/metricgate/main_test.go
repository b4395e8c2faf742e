package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slipway-dev/slipway/approval"
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
	err := rollOut(t.Context(), &metric{s.URL, "errors", 0.02}, func(e stages.Event) {
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
		m := &metric{answers(t, &asked, text).URL, "errors", 1}
		if d, err := m.Decide(t.Context(), approval.Request{}); err == nil || d.Verdict != "" {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
}
