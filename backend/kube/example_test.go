package kube_test

import (
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube"
	"github.com/slipway-dev/slipway/fleet"
)

// An engine keeps its state on the hub cluster that config reaches, takes snapshots of what is there,
// and reaches the clusters that are registered there as MemberClusters.
func Example() {
	engine := func(config *rest.Config) (*fleet.Engine, error) {
		store, err := kube.NewStore(config, kube.StoreOptions{})
		if err != nil {
			return nil, err
		}
		members, err := kube.NewMemberClusters(config, kube.InventoryOptions{})
		if err != nil {
			return nil, err
		}
		source, err := kube.NewSource(config, kube.SourceOptions{})
		if err != nil {
			return nil, err
		}
		return fleet.New(fleet.Config{
			Store: store, Inventory: members, Source: source,
			Dialer: kube.NewDialer(kube.KubeconfigDirectory("members", kube.Trusted()), kube.ConnOptions{}),
		})
	}
	_ = engine
}
