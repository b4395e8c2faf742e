package hubverbs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
)

// serve serves the hub until ctx ends, and its health to others. Members are registered meanwhile, and fenced where
// that is asked for. What ends first ends the rest.
func (h *options) serve(ctx context.Context) error {
	config, err := h.kube.Config()
	if err != nil {
		return err
	}
	if !h.secrets {
		if err := h.Said("Secrets are not placed: --secrets places them"); err != nil {
			return err
		}
	}
	registry := prometheus.NewRegistry()
	dialer := member.NewDialer(member.KubeconfigDirectory(h.members, member.Trusted()), member.Options{Fenced: h.fence})
	served, err := hub.New(hub.Config{
		Rest: config, Namespace: h.kube.HubNamespace, LeaseDuration: h.lease, DeleteDeadline: h.deadline, Registry: registry,
		Log: h.logger(), Dialer: dialer, Engine: fleet.Config{Rules: h.rules()},
	})
	if err != nil {
		return err
	}
	register, err := h.registrar(config)
	if err != nil {
		return err
	}
	works := []func(context.Context) error{served.Run, func(ctx context.Context) error { return eachMember(ctx, h.members, register) }}
	if h.fence {
		works = append(works, func(ctx context.Context) error { return h.fenceMembers(ctx, dialer) })
	}
	if h.listen != "" {
		listener, err := net.Listen("tcp", h.listen)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		if err := h.Said("health and metrics: http://%s/", listener.Addr()); err != nil {
			return errors.Join(err, listener.Close())
		}
		works = append(works, func(ctx context.Context) error { return serveHealth(ctx, listener, served, registry) })
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for _, work := range works {
		group.Go(func() error {
			defer stop()
			return work(ctx)
		})
	}
	return group.Wait()
}

// serveHealth serves /healthz, /readyz and /metrics.
func serveHealth(ctx context.Context, listener net.Listener, h *hub.Hub, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", h.Live())
	mux.Handle("GET /readyz", h.Ready())
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--listen: %w", err)
	}
	return nil
}
