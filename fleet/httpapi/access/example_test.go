package access_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/fleet/httpapi/access"
)

// A host reads a policy, and gives its function to the handler of the API.
func ExampleRead() {
	policy, err := access.Read([]byte(`
rules:
- {role: operator, users: [ann], placements: [web-*]}
- {role: viewer, users: ["*"], placements: ["*"]}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = httpapi.Options{Authorize: policy.Authorize} // with an Authenticate of the host

	ctx, ann, bob := context.Background(), approval.Identity{Name: "ann"}, approval.Identity{Name: "bob"}
	fmt.Println(policy.Authorize(ctx, ann, httpapi.Operate, "web-shop"))
	fmt.Println(policy.Authorize(ctx, ann, httpapi.Operate, "bank"))
	fmt.Println(policy.Authorize(ctx, bob, httpapi.Get, "bank"))
	// Output:
	// <nil>
	// the policy gives no such right
	// <nil>
}
