package fleet_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// A page about a placement reads its record once, so all its data is from the same moment.
func ExamplePlacementHandle_View() {
	members := memory.NewFleet(placement.Cluster{Name: "oslo"})
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespace("web")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	err = engine.PutPlacement(ctx, fleet.Placement{
		Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}},
		Policy: placement.Policy{Type: placement.PickAll},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := engine.Placement("web").Capture(ctx); err != nil {
		fmt.Println(err)
		return
	}

	view, err := engine.Placement("web").View(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range view.Snapshots() {
		items, err := view.Items(ctx, s.Index)
		fmt.Println("snapshot", s.Index, "of", len(items), "object", items[0].Kind, err)
	}
	for c, err := range view.Placed(ctx) {
		fmt.Println(c.Name, c.Index, err)
	}
	fmt.Println("irreversible:", view.Irreversible())
	// Output:
	// snapshot 0 of 1 object Namespace <nil>
	// irreversible: []
}
