package fleet_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Resolve returns the clusters that a placement picks now, and the clusters that it would pick if
// it wanted more.
func ExamplePlacementHandle_PreviewResolve() {
	members := memory.NewFleet(
		placement.Cluster{Name: "oslo", Labels: map[string]string{"region": "north"}},
		placement.Cluster{Name: "rome", Labels: map[string]string{"region": "south"}},
		placement.Cluster{Name: "bari", Labels: map[string]string{"region": "south"}},
	)
	members.Report("bari", func(c *placement.Cluster) { c.Unhealthy = "no heartbeat" })
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespace("web")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	web := fleet.Placement{
		Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}},
		Policy: placement.Policy{Type: placement.PickN, NumberOfClusters: new(1)},
	}
	if err := engine.PutPlacement(ctx, web); err != nil {
		fmt.Println(err)
		return
	}
	now, err := engine.Placement("web").Resolve(ctx)
	fmt.Println(now.Clusters, err)

	more := placement.Policy{
		Type: placement.PickN, NumberOfClusters: new(3),
		Spread: []placement.SpreadConstraint{{TopologyKey: "region"}},
	}
	then, err := engine.Placement("web").PreviewResolve(ctx, &more)
	fmt.Println(then.Clusters, err)
	for _, v := range then.Evaluations {
		fmt.Println(v.Cluster, v.Picked, v.Reason)
	}
	fmt.Println(then.Shortfall)
	// Output:
	// [rome] <nil>
	// [oslo rome] <nil>
	// bari false it is not healthy: no heartbeat
	// oslo true it comes as number 2 of 3, with a score of 0 for the spread and 0 for affinity
	// rome true it is already placed
	// only 2 of 3 clusters can be picked. Not picked: 1, since it is not healthy: no heartbeat
}
