package main

import (
	"log/slog"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
)

// newManager returns a manager that runs a hub and the host's own reconciler while it leads.
func newManager(config *rest.Config, members string, o manager.Options, log *slog.Logger) (manager.Manager, error) {
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
	})
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(manager.RunnableFunc(h.Run)); err != nil {
		return nil, err
	}
	return mgr, labelMembers(mgr)
}
