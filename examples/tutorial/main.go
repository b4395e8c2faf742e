// Command tutorial is the program of docs/tutorials/embedding.md. It brings a ConfigMap to three
// clusters in memory, one of them first, then a change of it, and rolls the change back.
//
//	go run ./examples/tutorial
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func main() {
	if err := play(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// play rolls out two greetings, and rolls the second one back.
func play(ctx context.Context, out io.Writer) error {
	clusters := memory.NewFleet(
		placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "eu-2"}, placement.Cluster{Name: "us-1"},
	)
	source := memory.NewSource(object("Namespace", "", "shop"))
	engine, err := fleet.New(fleet.Config{
		Store:     memory.NewStore(), // where the engine keeps its state
		Inventory: clusters,          // which clusters there are
		Dialer:    clusters,          // how they are reached
		Source:    source,            // the objects that snapshots are taken of
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var driving sync.WaitGroup
	driving.Go(func() { // drives runs until ctx ends
		if err := engine.Start(ctx); err != nil {
			log.Print(err)
			stop() // nothing drives the runs any more, so their events must end
		}
	})
	defer driving.Wait()
	defer stop()

	selectors := []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: selectors}); err != nil {
		return err
	}
	strategy := stages.Strategy{
		Stages: []stages.Stage{
			{Name: "canary", Clusters: []string{"eu-1"}, After: []stages.Task{{Type: stages.Approval}}},
			{Name: "others", Rest: true},
		},
		Rollback: &stages.RollbackPolicy{},
	}
	afterRun := "" // the cursor after the last event of the latest run
	for _, change := range []struct{ run, text string }{{"shop-1", "hello"}, {"shop-2", "good morning"}} {
		greeting := object("ConfigMap", "shop", "greeting")
		greeting.Object["data"] = map[string]any{"text": change.text}
		if err := source.Put(greeting); err != nil {
			return err
		}
		spec := fleet.RunSpec{Name: change.run, Placement: "shop", Strategy: strategy}
		if _, err := engine.EnsureRun(ctx, spec); err != nil {
			return err
		}
		if afterRun, err = follow(ctx, out, engine, change.run, ""); err != nil {
			return err
		}
		show(out, clusters) // up to date: a cluster completes after the engine has read its objects back
	}
	if _, err := engine.Run("shop-2").Rollback(ctx, fleet.RollbackOptions{Reason: "it is evening"}); err != nil {
		return err
	}
	// The events of shop-2 had ended. The events of its rollback follow them.
	if _, err := follow(ctx, out, engine, "shop-2", afterRun); err != nil {
		return err
	}
	show(out, clusters)
	return nil
}

// follow prints the events of a run after a cursor until the run and its rollback have ended,
// approves its request, and returns the cursor after the last event.
func follow(ctx context.Context, out io.Writer, engine *fleet.Engine, run, after string) (string, error) {
	events, err := engine.Run(run).Follow(after)
	if err != nil {
		return "", err
	}
	for e, err := range events.Events(ctx) {
		if err != nil {
			return "", err
		}
		switch e.Type {
		case stages.ApprovalRequested:
			if err := approve(ctx, engine, run); err != nil {
				return "", err
			}
		case stages.ApprovalAccepted, stages.ClusterCompleted, stages.RunCompleted, stages.RunFailed:
			fmt.Fprintln(out, e.Type, e.Run, e.Stage, e.Cluster, e.By, e.Message)
		}
	}
	return events.Cursor(), nil
}

// approve answers the open requests of a run. The host has authenticated Ann.
func approve(ctx context.Context, engine *fleet.Engine, run string) error {
	requests, err := engine.Run(run).Requests(ctx)
	if err != nil {
		return err
	}
	for _, r := range requests {
		yes := approval.Decision{Verdict: approval.Approve, Comment: "eu-1 looks good", Binding: r.Binding}
		command := stages.Command{Verb: stages.Decide, Name: r.Name, By: approval.Identity{Name: "ann"}, Decision: &yes}
		if err := engine.Run(run).Command(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// show prints the greeting of each cluster.
func show(out io.Writer, clusters *memory.Fleet) {
	greeting := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "greeting"}
	for _, name := range []string{"eu-1", "eu-2", "us-1"} {
		text := "nothing"
		if obj, err := clusters.Cluster(name).Get(greeting); err == nil {
			text, _, _ = unstructured.NestedString(obj.Object, "data", "text")
		}
		fmt.Fprintln(out, name, "has", text)
	}
}

func object(kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}
