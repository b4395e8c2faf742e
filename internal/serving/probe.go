package serving

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// checking is the time limit of the check of a probe.
const checking = 5 * time.Second

// Probe returns a handler for probes such as /healthz. It answers 200 and ok, or 503 and the error
// of check. Probes have no credentials, so the error must not contain a secret.
func Probe(check func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), checking)
		defer cancel()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err := check(ctx); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintln(w, err)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
}
