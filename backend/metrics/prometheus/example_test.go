package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/prometheus"
)

// A provider is asked for the errors of each cluster, as the engine asks it for a check with a
// clusterLabel.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[
			{"metric":{"cluster":"paris"},"value":[1767225600,"0.002"]},
			{"metric":{"cluster":"tokyo"},"value":[1767225600,"0.31"]}]}}`)
	}))
	defer server.Close()
	provider, err := prometheus.New(prometheus.Config{
		URL:      server.URL,
		Username: "slipway",
		Password: "from a file of the host",
		Headers:  http.Header{"X-Scope-OrgID": {"shop"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	samples, err := provider.Measure(context.Background(), backend.MetricQuery{
		Text:   `sum by (cluster) (rate(errors_total[40s])) / sum by (cluster) (rate(requests_total[40s]))`,
		Window: 40 * time.Second,
	})
	for _, s := range samples {
		fmt.Println(s.Labels["cluster"], s.Value)
	}
	fmt.Println(err)
	// Output:
	// paris 0.002
	// tokyo 0.31
	// <nil>
}
