// Command controller is a controller manager that embeds a hub of Slipway: one process, one leader
// election and one /metrics for the controllers of a platform team and for staged rollouts.
//
//	cd examples/controller
//	go run . -members DIR            with KUBECONFIG or -kubeconfig for the hub cluster
//
// The manager elects the leader, so the hub needs no election of its own. Beside it runs a reconciler of
// the host's: it labels each MemberCluster that has no environment with environment=staging, so that new
// members take part in the first stage of every strategy.
//
// The CRDs and the policies are installed by kubectl apply --server-side -f hub/manifests/crds -f
// hub/manifests/policies, or by package hub/manifests.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/slipway-dev/slipway/hub"
)

func main() {
	members := flag.String("members", "", "`DIR` with a kubeconfig for each member, NAME.kubeconfig")
	address := flag.String("metrics", "127.0.0.1:8080", "`ADDRESS` for /metrics")
	flag.Parse() // -kubeconfig is controller-runtime's
	if err := run(*members, *address); err != nil {
		fmt.Fprintln(os.Stderr, "controller:", err)
		os.Exit(1)
	}
}

func run(members, address string) error {
	if members == "" {
		return fmt.Errorf("-members is missing: the directory that has NAME.kubeconfig for each member")
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := newManager(config, members, manager.Options{
		LeaderElection: true, LeaderElectionID: "slipway-controller", LeaderElectionNamespace: hub.DefaultNamespace,
		Metrics: server.Options{BindAddress: address},
	}, log)
	if err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
