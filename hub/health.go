package hub

import (
	"context"
	"fmt"
	"net/http"

	"github.com/slipway-dev/slipway/internal/serving"
)

// Live returns the handler of /healthz. It answers 200 until the hub has stopped with an error,
// also while another hub leads.
func (h *Hub) Live() http.Handler {
	return serving.Probe(func(context.Context) error {
		if err := h.failure.Load(); err != nil {
			return *err
		}
		return nil
	})
}

// Ready returns the handler of /readyz. It answers 200 if the hub cluster can be reached, and
// this hub either waits for the lead or leads and has read all objects.
func (h *Hub) Ready() http.Handler {
	return serving.Probe(func(ctx context.Context) error {
		if h.leading.Load() && !h.ready.Load() {
			return fmt.Errorf("hub %s leads and has not read all objects yet", h.cfg.Name)
		}
		if _, err := h.kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx); err != nil {
			return fmt.Errorf("hub %s: the hub cluster cannot be reached", h.cfg.Name)
		}
		return nil
	})
}
