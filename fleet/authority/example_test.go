package authority_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/authority"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// approves is a service that approves; a real service asks a queue, a calendar or a metric.
func approves(name, group, comment string) approval.Authority {
	return approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		by := approval.Identity{Name: name, Groups: []string{group}}
		return approval.Decision{Verdict: approval.Approve, By: by, Comment: comment}, nil
	})
}

// Several authorities in one engine: a group for change management, whose calendar has a
// substitute, and a group whose two measurements must agree, made once everything else is approved.
func Example() {
	unreachable := approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		return approval.Decision{}, errors.New("no connection")
	})
	asked := authority.PerGroup(map[string]approval.Authority{
		"change": authority.First(unreachable, approves("on-call", "change", "")),
		"metrics": authority.Last(authority.All(
			approves("errors", "metrics", "0.1%"), approves("latency", "metrics", "80 ms"),
		), "metrics"),
	})

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clusters := memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "eu-1"})
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"},
	}})
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source, Authority: asked,
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()
	shop := fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}
	if err := engine.PutPlacement(ctx, shop); err != nil {
		log.Fatal(err)
	}
	policy := &approval.Policy{Quorums: []approval.Quorum{{Group: "change", Count: 1}, {Group: "metrics", Count: 1}}}
	strategy := stages.Strategy{Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{}, Before: []stages.Task{{Type: stages.Approval, Approval: policy}},
	}}}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: strategy}); err != nil {
		log.Fatal(err)
	}
	status, err := engine.Run("shop-1").Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Run.Name, "is", status.Run.State)

	events, err := engine.Placement("shop").Follow("")
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range events.Past(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Type == stages.ApprovalGiven || ev.Type == stages.ApprovalAccepted {
			fmt.Println(ev.Type, ev.By)
		}
	}
	// Output:
	// shop-1 is Completed
	// ApprovalGiven on-call
	// ApprovalAccepted errors, latency
}

// An expensive measurement is made once no other approval is missing. Its answer holds at that
// moment.
func ExampleLast() {
	measure := authority.Last(approves("errors", "metrics", "0.1%"), "metrics", fleet.NoDriftGroup)

	request := approval.Request{
		Name: "shop-1-after-all", Binding: approval.Binding{RunUID: "1", Stage: "all", When: approval.After, Attempt: 1}, Opened: time.Now(),
		Policy: approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "metrics", Count: 1}}},
	}
	early, err := measure.Decide(context.Background(), request)
	fmt.Printf("before: %q %v\n", early.Verdict, err)

	request.Decisions = []approval.Decision{{
		Verdict: approval.Approve, By: approval.Identity{Name: "ann", Groups: []string{"sre"}}, Binding: request.Binding, At: request.Opened,
	}}
	late, err := measure.Decide(context.Background(), request)
	fmt.Printf("after: %q %v, at a point in time: %v\n", late.Verdict, err, late.PointInTime)
	// Output:
	// before: "" <nil>
	// after: "Approve" <nil>, at a point in time: true
}

// A request that people do not answer within a day is rejected.
func ExampleWithDeadline() {
	people := approval.Func(func(context.Context, approval.Request) (approval.Decision, error) {
		return approval.Decision{}, nil // not yet
	})
	a := authority.WithDeadline(people, 24*time.Hour, approval.Decision{By: approval.Identity{Name: "release-bot", Groups: []string{"sre"}}})
	d, err := a.Decide(context.Background(), approval.Request{Name: "shop-1-after-all", Opened: time.Now().Add(-25 * time.Hour)})
	fmt.Println(d.Verdict, d.By.Name, d.Comment, err)
	// Output: Reject release-bot no answer within 24h0m0s <nil>
}
