package state

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// World calls the plug-ins of the host that report the state of the world.
type World struct {
	inventory backend.Inventory
	windows   Windows
	// poll is the interval between reads of an inventory that cannot be watched.
	poll time.Duration
	// inventories and rules each guard the calls of one plug-in, so that a plug-in that hangs does not
	// block the other.
	inventories, rules *guard.Guard
}

// Windows are the maintenance windows of a host.
type Windows interface {
	Rules(ctx context.Context, p *stages.Plan) (calendar.Rules, error)
}

// Inventory returns all clusters by name, or an error.
func (w *World) Inventory(ctx context.Context) (map[string]placement.Cluster, error) {
	clusters, _, err := w.Clusters(ctx)
	return clusters, err
}

// WatchInventory yields whenever the inventory may have changed.
func (w *World) WatchInventory(ctx context.Context) iter.Seq2[struct{}, error] {
	return guard.Stream(ctx, w.inventories, "inventory", "watch", func(ctx context.Context) iter.Seq2[struct{}, error] {
		return backend.WatchInventory(ctx, w.inventory, w.poll)
	})
}

// Clusters returns the clusters by name, bounded to the limits of an inventory entry. none are the
// names of entries that cannot be clusters.
func (w *World) Clusters(ctx context.Context) (clusters map[string]placement.Cluster, none []string, err error) {
	list, err := guard.Call(ctx, w.inventories, "inventory", "clusters", func(ctx context.Context) ([]placement.Cluster, error) {
		var out []placement.Cluster
		for c, err := range w.inventory.Clusters(ctx) {
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

// Rules calls the host for the windows of a plan. who identifies the caller in errors.
func (w *World) Rules(ctx context.Context, p *stages.Plan, who string) (calendar.Rules, error) {
	return guard.Call(ctx, w.rules, "windows", who, func(ctx context.Context) (calendar.Rules, error) {
		return w.windows.Rules(ctx, p)
	})
}
