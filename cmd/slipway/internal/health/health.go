// Package health serves the health and the metrics of a program that runs until it is interrupted.
package health

import (
	"context"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slipway-dev/slipway/internal/serving"
)

// mostScrapes is the maximum number of scrapes at a time, because each reads the store.
const mostScrapes = 2

// Serve serves /healthz, /readyz and /metrics on a listener until ctx ends. The limits of
// connections are the defaults of package serving.
func Serve(ctx context.Context, listener net.Listener, live, ready http.Handler, metrics prometheus.Gatherer) error {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", live)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: mostScrapes}))
	return serving.Serve(ctx, listener, mux, serving.Options{})
}
