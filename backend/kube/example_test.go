package kube_test

import (
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
)

// An engine keeps its state on the hub cluster of config, takes snapshots of its objects, and
// connects to the clusters that are registered there as MemberClusters.
func Example() {
	engine := func(config *rest.Config) (*fleet.Engine, error) {
		store, err := store.New(config, store.Options{})
		if err != nil {
			return nil, err
		}
		members, err := inventory.NewMemberClusters(config, inventory.Options{})
		if err != nil {
			return nil, err
		}
		source, err := source.New(config, source.Options{})
		if err != nil {
			return nil, err
		}
		return fleet.New(fleet.Config{
			Store: store, Inventory: members, Source: source,
			Dialer: member.NewDialer(member.KubeconfigDirectory("members", member.Trusted()), member.Options{}),
		})
	}
	_ = engine
}
