package fleet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/stages"
)

// A declared strategy is changed only if nobody else has changed it since it was read.
func ExampleEngine_PutStrategy() {
	ctx := context.Background()
	members := memory.NewFleet()
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members})
	if err != nil {
		fmt.Println(err)
		return
	}
	careful := stages.Strategy{Name: "careful", Stages: []stages.Stage{{Name: "all", Rest: true}}}
	fmt.Println(engine.PutStrategy(ctx, careful))

	read, err := engine.Strategy(ctx, "careful") // runs may name it, too: RunSpec.Strategy.Name
	fmt.Println(read.Stages[0].Name, err)

	changed := read
	changed.Attempts = 3
	fmt.Println(engine.ReplaceStrategy(ctx, &read, changed))
	err = engine.ReplaceStrategy(ctx, &read, careful)
	fmt.Println("changed in between:", errors.Is(err, errdef.ErrChanged))
	// Output:
	// <nil>
	// all <nil>
	// <nil>
	// changed in between: true
}
