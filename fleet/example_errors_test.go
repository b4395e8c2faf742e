package fleet_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
)

// A program branches on the cause and on the noun of an error, and shows its text to people.
func Example_errors() {
	members := memory.NewFleet()
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource()})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = engine.Placement("web").View(context.Background())
	if refused, ok := errors.AsType[*errdef.Error](err); ok && errors.Is(err, errdef.ErrNotFound) {
		fmt.Println("missing:", refused.Kind, refused.Name)
	}
	fmt.Println(err)
	// Output:
	// missing: placement web
	// placement web does not exist: declare it first
}
