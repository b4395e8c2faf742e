package fleet_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// The store names the holder of every run, whichever engine is asked. No engine has this run yet.
func ExampleEngine_Leases() {
	ctx, members := context.Background(), memory.NewFleet(placement.Cluster{Name: "member1"})
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespace("web")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, web); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: oneStage()}); err != nil {
		fmt.Println(err)
		return
	}
	leases, err := engine.Leases(ctx)
	for _, l := range leases {
		fmt.Printf("%s of %s is %s, held by %q, overdue: %t\n", l.Run, l.Placement, l.State, l.Holder, l.Overdue)
	}
	fmt.Println(err)
	// Output:
	// web-1 of web is NotStarted, held by "", overdue: false
	// <nil>
}
