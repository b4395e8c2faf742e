package hub_test

import (
	"context"
	"log/slog"

	"k8s.io/client-go/rest"

	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
)

// A hub serves the Fleet API on the cluster of config until ctx ends. It rolls out to the members
// whose kubeconfigs are in the directory.
func Example() {
	serve := func(ctx context.Context, config *rest.Config) error {
		if err := manifests.Install(ctx, config, manifests.Options{}); err != nil {
			return err
		}
		h, err := hub.New(hub.Config{
			Rest:   config,
			Dialer: kubemember.NewDialer(kubemember.KubeconfigDirectory("members", kubemember.Trusted()), kubemember.Options{}),
			Log:    slog.Default(),
		})
		if err != nil {
			return err
		}
		return h.Run(ctx)
	}
	_ = serve
}
