package fleet_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
)

// At most five clusters that use the database are in flight at once, over all runs whose strategies
// set Cap: "database".
func ExampleEngine_SetCap() {
	ctx := context.Background()
	members := memory.NewFleet()
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(engine.SetCap(ctx, "database", 5))
	caps, err := engine.Caps(ctx)
	fmt.Println(caps[0].Name, caps[0].InUse(), err)
	fmt.Println(engine.DeleteCap(ctx, "database")) // refused while a run has some of it
	// Output:
	// <nil>
	// database 0 of 5 <nil>
	// <nil>
}
