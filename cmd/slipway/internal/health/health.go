// Package health serves the health and the metrics of a program that runs until it is interrupted.
package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slipway-dev/slipway/internal/serving"
)

// mostScrapes is the maximum number of scrapes at a time, because each reads the store.
const mostScrapes = 2

// Serve serves /healthz, /readyz and /metrics on a listener until ctx ends. The limits of
// connections are those of package serving.
func Serve(ctx context.Context, listener net.Listener, live, ready http.Handler, metrics prometheus.Gatherer) error {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", live)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: mostScrapes}))
	return serving.Serve(ctx, listener, mux, serving.Options{})
}

// checking is the time limit of a check.
const checking = 5 * time.Second

// Handler answers 200 and ok, or 503 if check fails. The caller is not known, so the answer does
// not have the error.
func Handler(check func(context.Context) error, otherwise string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checking)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := check(ctx); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, otherwise)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
}
