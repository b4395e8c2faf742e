package apply_test

import (
	"encoding/json"
	"fmt"

	"github.com/slipway-dev/slipway/apply"
)

// Manifests that kubectl apply accepts may have fields that their kind does not know. A placement
// of ClientSideApply accepts them too, takes over what kubectl applied before only if it does not
// differ, and leaves objects alone that others changed on a cluster.
func ExampleStrategy() {
	s := apply.Strategy{Type: apply.ClientSide, WhenToTakeOver: apply.IfNoDiff, WhenToApply: apply.IfNotDrifted}
	text, err := json.Marshal(s)
	fmt.Println(string(text), err)
	// Output: {"type":"ClientSideApply","whenToApply":"IfNotDrifted","whenToTakeOver":"IfNoDiff"} <nil>
}
