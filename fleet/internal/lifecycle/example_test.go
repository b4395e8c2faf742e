package lifecycle_test

import (
	"fmt"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/stages"
)

// A run that asks for its turn waits for the active run. Advance names the record that it needs for
// the decision, and a driver reads it.
func ExampleAdvance() {
	first, second := lifecycle.Entry{UID: "u1", Run: "shop-1"}, lifecycle.Entry{UID: "u2", Run: "shop-2"}
	state := lifecycle.State{
		UID: "p", NextIndex: 1,
		Queue: lifecycle.Queue{Active: &first, Waiting: []lifecycle.Entry{second}},
		Runs:  []lifecycle.Run{{Name: "shop-1", UID: "u1"}, {Name: "shop-2", UID: "u2"}},
	}
	asked := lifecycle.TurnAsked{Entry: second}
	facts := lifecycle.Facts{Spec: lifecycle.Spec{Name: "shop"}, ID: "unique", Runs: map[string]lifecycle.RunFact{}}
	out, err := lifecycle.Advance(state, asked, facts)
	fmt.Println("to be read:", out.Need.Runs[0].Run, err)

	facts.Runs["u1"] = lifecycle.RunFact{Found: lifecycle.Present}
	out, err = lifecycle.Advance(state, asked, facts)
	fmt.Println("waits for", out.Turn.WaitsFor, out.Changed, err)

	// The first run has ended, and its engine died before it recorded that.
	facts.Runs["u1"] = lifecycle.RunFact{Found: lifecycle.Present, Ended: true, Result: &lifecycle.Result{State: stages.Completed}}
	facts.Runs["u2"] = lifecycle.RunFact{Found: lifecycle.Present}
	out, err = lifecycle.Advance(state, asked, facts)
	fmt.Println("starts:", out.Turn.Starts, "shop-1 is", out.State.Runs[0].Ended, err)
	// Output:
	// to be read: shop-1 <nil>
	// waits for shop-1 false <nil>
	// starts: true shop-1 is Completed <nil>
}
