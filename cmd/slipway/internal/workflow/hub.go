package workflow

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
)

// hub is how a hub is reached: by the rights of a kubeconfig to its records.
type hub struct{ kubeconfig, context, records string }

// workflows returns those of the hub, which is what a kubeconfig names. The engine of this process carries nothing out
// there: it records what is asked for, and reaches no member.
func (h *hub) workflows() (w workflows, end func() error, err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = h.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: h.context}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, nil, cli.Usagef("--store is not set, and neither is --kubeconfig: want the file of a store, or a hub")
	case err != nil:
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	records, err := store.New(config, store.Options{Namespace: h.records})
	if err != nil {
		return nil, nil, err
	}
	members, err := inventory.NewMemberClusters(config, inventory.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, records.Close())
	}
	objects, err := source.New(config, source.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, members.Close(), records.Close())
	}
	end = func() error { return errors.Join(objects.Close(), members.Close(), records.Close()) }
	dialer := member.NewDialer(member.KubeconfigContexts(h.kubeconfig, member.Trusted()), member.Options{})
	engine, err := fleet.New(fleet.Config{Name: "slipway", Store: records, Inventory: members, Dialer: dialer, Source: objects})
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return &delivery.Applications{Engine: engine, Store: records}, end, nil
}
