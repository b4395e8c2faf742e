package approval_test

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
)

// Two people of sre and one of release have to approve, none of whom started
// the run.
func Example() {
	opened := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	request := approval.Request{
		Name: approval.RequestName("web-7", "prod", approval.Before),
		Binding: approval.Binding{
			RunUID: "f3c1", Stage: "prod", When: approval.Before, Attempt: 1, Plan: "sha256:9f86d0",
		},
		Starter: approval.Identity{Name: "sam"},
		Policy: approval.Policy{
			Quorums:       []approval.Quorum{{Group: "sre", Count: 2}, {Group: "release", Count: 1}},
			ForbidStarter: true,
			Expires:       metav1.Duration{Duration: 24 * time.Hour},
		},
		Opened: opened,
	}

	now := opened.Add(time.Hour)
	for _, by := range []approval.Identity{
		{Name: "ann", Groups: []string{"sre", "release"}},
		{Name: "ann", Groups: []string{"sre"}},
		{Name: "sam", Groups: []string{"sre"}},
		{Name: "bob", Groups: []string{"sre"}},
	} {
		decision := approval.Decision{Verdict: approval.Approve, By: by, At: now, Binding: request.Binding}
		next, outcome, err := approval.Evaluate(request, decision, now)
		if refused, ok := errors.AsType[*approval.RefusedError](err); ok {
			fmt.Printf("%s: refused: %s\n", by.Name, refused.Reason)
			continue
		}
		request = next
		fmt.Printf("%s: %s, missing %v\n", by.Name, outcome, approval.Missing(request))
	}
	// Output:
	// ann: Pending, missing [{sre 1}]
	// ann: refused: the same identity has decided already
	// sam: refused: the policy forbids the one who started the run
	// bob: Accepted, missing []
}

// Ann is in both groups. Her approval counts for sre until bob approves, who is only in sre. Then it
// counts for release.
func ExamplePolicy_distinctApprovers() {
	opened := time.Date(2026, 5, 4, 9, 0, 0, 0, time.UTC)
	request := approval.Request{
		Name:   "web-7-after-canary",
		Opened: opened,
		Policy: approval.Policy{
			Quorums:           []approval.Quorum{{Group: "sre", Count: 1}, {Group: "release", Count: 1}},
			DistinctApprovers: true,
		},
	}
	for _, by := range []approval.Identity{
		{Name: "ann", Groups: []string{"sre", "release"}},
		{Name: "bob", Groups: []string{"sre"}},
	} {
		decision := approval.Decision{Verdict: approval.Approve, By: by, At: opened}
		next, outcome, err := approval.Evaluate(request, decision, opened)
		if err != nil {
			fmt.Println(err)
			return
		}
		request = next
		fmt.Printf("%s: %s, missing %v\n", by.Name, outcome, approval.Missing(request))
	}
	// Output:
	// ann: Pending, missing [{release 1}]
	// bob: Accepted, missing []
}
