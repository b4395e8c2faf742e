// Command hub is a hub in your own program: it installs the Fleet API on a cluster and serves it
// there, so that placements, strategies, runs and approvals are objects for kubectl.
//
//	go run ./examples/hub -install admin.kubeconfig
//	go run ./examples/hub -kubeconfig account.kubeconfig -members DIR     # DIR has member1.kubeconfig and so on
//
// An administrator installs once. The hub itself then serves with the token of the account
// slipway-hub that the installation makes, and needs no other right on the hub cluster.
//
// Change the connections to members, the permitted objects in hub.Config.Engine, and the other
// tasks of the program. The command slipway hub has flags for common changes; examples/controller
// is a hub in a controller manager.
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
)

func main() {
	admin := flag.String("install", "", "`FILE` that reaches the hub cluster with the rights of an administrator: install, and end")
	kubeconfig := flag.String("kubeconfig", "", "`FILE` that reaches the hub cluster with the token of its account slipway-hub")
	members := flag.String("members", "", "`DIR` with NAME.kubeconfig for each MemberCluster")
	listen := flag.String("listen", "127.0.0.1:8080", "`ADDRESS` for /healthz, /readyz and /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", cmp.Or(*admin, *kubeconfig))
	switch {
	case err != nil:
	case *admin != "":
		err = install(ctx, config)
	default:
		err = serve(ctx, config, *members, *listen, slog.Default())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// install installs the CRDs, the admission policies, and an account with the least that a hub
// needs.
func install(ctx context.Context, config *rest.Config) error {
	return manifests.Install(ctx, config, manifests.Options{Hub: &manifests.HubOptions{Namespace: hub.DefaultNamespace}})
}

// serve serves the Fleet API of the cluster until ctx ends. Several processes may serve one
// cluster: one leads, the others wait.
func serve(ctx context.Context, config *rest.Config, members, listen string, log *slog.Logger) error {
	registry := prometheus.NewRegistry()
	h, err := hub.New(hub.Config{
		Rest:     config,
		Dialer:   member.NewDialer(member.KubeconfigDirectory(members, member.Trusted()), member.Options{}),
		Registry: registry,
		Log:      log,
		// the account may not read Secrets, unless HubOptions.Secrets is set
		Engine: fleet.Config{Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}},
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", h.Live())
	mux.Handle("GET /readyz", h.Ready())
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	// Clients that send nothing lose their connection, and at most 256 have one.
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	serving, stop := context.WithCancelCause(ctx)
	go func() { stop(server.Serve(netutil.LimitListener(ln, 256))) }()
	defer server.Close()
	err = h.Run(serving)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(serving)
	}
	return err
}
