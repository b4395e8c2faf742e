package httpjson_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/httpjson"
)

// A service returns the number of errors of each cluster; a query selects one number, or the
// numbers of all clusters.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"total": "12", "clusters": [
			{"labels": {"cluster": "paris"}, "value": 2},
			{"labels": {"cluster": "tokyo"}, "value": 10}]}`)
	}))
	defer service.Close()
	provider, err := httpjson.New(httpjson.Config{
		Hosts: []httpjson.Host{{URL: service.URL + "/api", Username: "slipway", Password: "from a file of the host"}},
		// The service is on this machine, and local addresses must be allowed explicitly.
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, query := range []string{"GET /errors?minutes=5 #/total", "GET /errors #/clusters", "GET http://other.invalid/ #/total"} {
		samples, err := provider.Measure(context.Background(), backend.MetricQuery{Text: query, Window: time.Minute})
		for _, s := range samples {
			fmt.Println(s.Labels["cluster"], s.Value)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	//  12
	// paris 2
	// tokyo 10
	// httpjson: query: its URL is below none of the allowed URLs
}
