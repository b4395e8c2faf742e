// Command hub is a hub in your own program: it installs the Fleet API on a cluster and serves it
// there, so that placements, strategies, runs and approvals are objects for kubectl.
//
//	go run ./examples/hub -kubeconfig hub.kubeconfig -members DIR     # DIR has member1.kubeconfig and so on
//
// Change the connections to members, the permitted objects in hub.Config.Engine, and the other
// tasks of the program. The command slipway hub has flags for common changes; examples/controller
// is a hub in a controller manager.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`FILE` that reaches the hub cluster")
	members := flag.String("members", "", "`DIR` with NAME.kubeconfig for each MemberCluster")
	listen := flag.String("listen", "127.0.0.1:8080", "`ADDRESS` for /healthz, /readyz and /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err == nil {
		err = serve(ctx, config, *members, *listen, slog.Default())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve installs the Fleet API on the cluster and serves it until ctx ends. Several processes may
// serve one cluster: one leads, the others wait.
func serve(ctx context.Context, config *rest.Config, members, listen string, log *slog.Logger) error {
	// The CRDs, the admission policies, and an account with the least that a hub needs.
	err := manifests.Install(ctx, config, manifests.Options{Hub: &manifests.HubOptions{Namespace: hub.DefaultNamespace}})
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	h, err := hub.New(hub.Config{
		Rest:     config,
		Dialer:   member.NewDialer(member.KubeconfigDirectory(members, member.Trusted()), member.Options{}),
		Registry: registry,
		Log:      log,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", h.Live())
	mux.Handle("GET /readyz", h.Ready())
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Addr: listen, Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute}
	serving, stop := context.WithCancelCause(ctx)
	go func() { stop(server.ListenAndServe()) }() // an address in use ends the hub, too
	defer server.Close()
	err = h.Run(serving)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(serving)
	}
	return err
}
