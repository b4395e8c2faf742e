package apply_test

import (
	"encoding/json"
	"fmt"

	"github.com/slipway-dev/slipway/apply"
)

// Manifests that kubectl apply accepts may have fields that their kind does not know. A placement
// of ClientSideApply accepts them too. This one takes over an object of kubectl only if the object
// does not differ, and does not restore objects that drifted.
func ExampleStrategy() {
	s := apply.Strategy{Type: apply.ClientSide, WhenToTakeOver: apply.IfNoDiff, WhenToApply: apply.IfNotDrifted}
	text, err := json.Marshal(s)
	fmt.Println(string(text), err)
	// Output: {"type":"ClientSideApply","whenToApply":"IfNotDrifted","whenToTakeOver":"IfNoDiff"} <nil>
}
