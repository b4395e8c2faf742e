package state

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// Inventory returns all clusters by name, or an error.
func (st *State) Inventory(ctx context.Context) (map[string]placement.Cluster, error) {
	clusters, _, err := st.Clusters(ctx)
	return clusters, err
}

// WatchInventory yields whenever the inventory may have changed.
func (st *State) WatchInventory(ctx context.Context) iter.Seq2[struct{}, error] {
	return guard.Stream(ctx, st.inventories, "inventory", "watch", func(ctx context.Context) iter.Seq2[struct{}, error] {
		return backend.WatchInventory(ctx, st.cfg.Inventory, st.cfg.Poll)
	})
}

// Clusters returns the clusters by name, bounded to the limits of an inventory entry. none are the
// names of entries that cannot be clusters.
func (st *State) Clusters(ctx context.Context) (clusters map[string]placement.Cluster, none []string, err error) {
	list, err := guard.Call(ctx, st.inventories, "inventory", "clusters", func(ctx context.Context) ([]placement.Cluster, error) {
		var out []placement.Cluster
		for c, err := range st.cfg.Inventory.Clusters(ctx) {
			if err != nil {
				return nil, err
			}
			out = append(out, c.Bounded())
		}
		return out, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("inventory: %w", err)
	}
	list = slices.DeleteFunc(list, func(c placement.Cluster) bool {
		valid := placement.ValidName(c.Name)
		if !valid {
			none = append(none, c.Name[:min(len(c.Name), longestName)])
		}
		return !valid
	})
	if err := placement.ValidateClusters(list); err != nil {
		return nil, nil, err
	}
	clusters = make(map[string]placement.Cluster, len(list))
	for _, c := range list {
		clusters[c.Name] = c
	}
	return clusters, none, nil
}

// longestName is the maximum number of bytes of an invalid name in a warning.
const longestName = 64

// RulesOf calls the host for the windows of a plan. who identifies the caller in errors.
func (st *State) RulesOf(ctx context.Context, p *stages.Plan, who string) (calendar.Rules, error) {
	return guard.Call(ctx, st.windows, "windows", who, func(ctx context.Context) (calendar.Rules, error) {
		return st.cfg.Windows.Rules(ctx, p)
	})
}
