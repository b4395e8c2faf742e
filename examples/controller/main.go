// Command controller is a controller manager that embeds a hub of Slipway: one process, one
// leader election and one /metrics for the controllers of a platform team and for staged
// rollouts.
//
//	cd examples/controller
//	go run . -members DIR            with KUBECONFIG or -kubeconfig for the hub cluster's account slipway-hub
//
// The manager elects the leader, so the hub needs no election of its own. Beside it runs a
// reconciler of the host's, which labels new members, so that they take part in the first stage
// of every strategy. It reads and writes them as the Go types of package api/cluster/v1beta1.
// Package hub/manifests, or slipway hub install, sets the cluster up.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1beta1 "github.com/slipway-dev/slipway/api/cluster/v1beta1"
	placementv1beta1 "github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/snapshot"
)

func main() {
	members := flag.String("members", "", "`DIR` with a kubeconfig for each member, NAME.kubeconfig")
	address := flag.String("metrics", "127.0.0.1:8080", "`ADDRESS` for /metrics")
	flag.Parse() // -kubeconfig is controller-runtime's
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctrl.SetLogger(logr.FromSlogHandler(logger.Handler()))
	mgr, err := newManager(ctrl.GetConfigOrDie(), *members, manager.Options{
		LeaderElection: true, LeaderElectionID: "slipway-controller", LeaderElectionNamespace: hub.DefaultNamespace,
		Metrics: server.Options{BindAddress: *address},
	}, logger)
	if err == nil {
		err = mgr.Start(ctrl.SetupSignalHandler())
	}
	if err != nil {
		log.Fatal(err)
	}
}

// newManager returns a manager that runs a hub and the host's own reconciler while it leads.
func newManager(config *rest.Config, members string, o manager.Options, log *slog.Logger) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	o.Scheme = scheme
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		return nil, err
	}
	h, err := hub.New(hub.Config{
		Rest:       config,
		Dialer:     member.NewDialer(member.KubeconfigDirectory(members, member.Trusted()), member.Options{}),
		AlwaysLead: true, // the manager runs it only while it leads
		Registry:   metrics.Registry,
		Log:        log,
		// the account may not read Secrets, unless HubOptions.Secrets is set
		Engine: fleet.Config{Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}},
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(manager.RunnableFunc(h.Run)); err != nil {
		return nil, err
	}
	return mgr, labelMembers(mgr)
}

// newScheme returns a scheme with the kinds of Kubernetes and of the Fleet API.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetes.AddToScheme, clusterv1beta1.AddToScheme, placementv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// labelMembers adds a reconciler that gives members without an environment the label
// environment=staging.
func labelMembers(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&clusterv1beta1.MemberCluster{}).Named("member-environment").
		Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			var m clusterv1beta1.MemberCluster
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, &m); err != nil || m.Labels["environment"] != "" {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			before := m.DeepCopy()
			metav1.SetMetaDataLabel(&m.ObjectMeta, "environment", "staging")
			return reconcile.Result{}, mgr.GetClient().Patch(ctx, &m, client.MergeFrom(before))
		}))
}
