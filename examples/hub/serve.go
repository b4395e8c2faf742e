package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
)

// serve installs what the hub cluster needs, where that is asked for, and serves kubectl and others that ask
// for the hub's health until ctx ends. Members are registered meanwhile, and fenced where that is asked for.
func serve(ctx context.Context, l line, out io.Writer, log *slog.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig %s: %w", l.kubeconfig, err)
	}
	if l.install || l.installOnly {
		err := manifests.Install(ctx, config, manifests.Options{
			Hub: &manifests.HubOptions{Namespace: l.namespace, Secrets: l.secrets}, Aggregate: l.aggregate,
			Done: func(c manifests.Change) { fmt.Fprintln(out, c) },
		})
		if err != nil {
			return err
		}
	}
	if l.installOnly {
		return nil
	}
	if !l.secrets {
		fmt.Fprintln(out, "Secrets are not placed: -secrets places them")
	}
	registry := prometheus.NewRegistry()
	dialer := member.NewDialer(member.KubeconfigDirectory(l.members, member.Trusted()), member.Options{Fenced: l.fence})
	h, err := hub.New(hub.Config{
		Rest: config, Namespace: l.namespace, LeaseDuration: l.lease, DeleteDeadline: l.deadline, Registry: registry, Log: log,
		Dialer: dialer, Engine: fleet.Config{Rules: l.rules()},
	})
	if err != nil {
		return err
	}
	r, err := newRegistrar(config, l.members, out)
	if err != nil {
		return err
	}
	works := []func(context.Context) error{h.Run, r.run}
	if l.fence {
		f := &fencer{dialer: dialer, dir: l.members, out: out, log: log}
		works = append(works, f.run)
	}
	if l.listen != "" {
		listener, err := net.Listen("tcp", l.listen)
		if err != nil {
			return fmt.Errorf("-listen: %w", err)
		}
		fmt.Fprintf(out, "health and metrics: http://%s/\n", listener.Addr())
		works = append(works, func(ctx context.Context) error { return serveHealth(ctx, listener, h, registry) })
	}
	return all(ctx, works)
}

// rules are what is never placed.
func (l *line) rules() (r snapshot.Rules) {
	if !l.secrets {
		r.Never = []snapshot.GroupKind{{Kind: "Secret"}}
	}
	return r
}

// all works until ctx ends. What ends first ends the rest.
func all(ctx context.Context, works []func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	failures := make([]error, len(works))
	for i, work := range works {
		group.Go(func() {
			defer stop()
			failures[i] = work(ctx)
		})
	}
	group.Wait()
	return errors.Join(failures...)
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
		return fmt.Errorf("-listen: %w", err)
	}
	return nil
}
