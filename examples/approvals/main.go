// Command approvals shows a gate with two groups: two members of sre and one of release must
// approve before a change continues from the first cluster to the others. A program, an
// approval.Authority, approves for release; the members of sre are people whom the host has
// authenticated.
//
//	go run ./examples/approvals
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func main() {
	people := []approval.Identity{
		{Name: "bob", Groups: []string{"sre"}}, // started the run
		{Name: "eve", Groups: []string{"sales"}},
		{Name: "ann", Groups: []string{"sre"}},
		{Name: "ann", Groups: []string{"sre"}},
		{Name: "joe", Groups: []string{"sre"}},
	}
	if err := rollOut(context.Background(), os.Stdout, people); err != nil {
		log.Fatal(err)
	}
}

// gate requires approvals by two members of sre and one of release, none of whom started the run.
func gate() stages.Task {
	policy := &approval.Policy{
		Quorums:           []approval.Quorum{{Group: "sre", Count: 2}, {Group: "release", Count: 1}},
		ForbidStarter:     true,
		DistinctApprovers: true, // nobody approves for both groups
		RequireBinding:    true, // an answer quotes the run, stage and plan that it was given for
		Expires:           metav1.Duration{Duration: 4 * time.Hour},
	}
	gate := stages.Task{Type: stages.Approval, Approval: policy}
	return gate
}

// release approves for its group after sre has approved; until then it returns no verdict.
func release(_ context.Context, r approval.Request) (approval.Decision, error) {
	if slices.ContainsFunc(approval.Missing(r), func(q approval.Quorum) bool { return q.Group == "sre" }) {
		return approval.Decision{}, nil
	}
	by := approval.Identity{Name: "calendar", Groups: []string{"release"}}
	return approval.Decision{Verdict: approval.Approve, By: by, Comment: "no freeze today"}, nil
}

// rollOut performs a run; the people answer its gate in their order.
func rollOut(ctx context.Context, out io.Writer, people []approval.Identity) error {
	clusters := memory.NewFleet(placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "eu-2"})
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: memory.NewSource(web), Authority: approval.Func(release),
	})
	if err != nil {
		return err
	}
	go engine.Start(ctx)
	selectors := []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: selectors}); err != nil {
		return err
	}
	strategy := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Clusters: []string{"eu-1"}, After: []stages.Task{gate()}},
		{Name: "others", Rest: true},
	}}
	run := fleet.RunSpec{Name: "web-v1", Placement: "web", Strategy: strategy, Starter: approval.Identity{Name: "bob"}}
	if _, err := engine.EnsureRun(ctx, run); err != nil {
		return err
	}
	events, err := engine.Run("web-v1").Follow("")
	if err != nil {
		return err
	}
	for e, err := range events.Events(ctx) {
		switch {
		case err != nil:
			return err
		case e.Type == stages.ApprovalRequested:
			if err := answer(ctx, out, engine, people); err != nil {
				return err
			}
		case e.Type != stages.RunTaken && e.By != "", e.Type == stages.RunCompleted:
			fmt.Fprintln(out, e.Type, e.Request, e.By, e.Message)
		}
	}
	return nil
}

// answer gives the answers of people to the open requests. A refused answer is not an error of
// the run.
func answer(ctx context.Context, out io.Writer, engine *fleet.Engine, people []approval.Identity) error {
	requests, err := engine.Run("web-v1").Requests(ctx)
	for _, r := range requests {
		for _, by := range people {
			yes := stages.Command{
				Verb: stages.Decide, Name: r.Name, By: by,
				Decision: &approval.Decision{Verdict: approval.Approve, Binding: r.Binding},
			}
			if err := engine.Run("web-v1").Command(ctx, yes); err != nil {
				fmt.Fprintln(out, err)
			}
		}
	}
	return err
}
