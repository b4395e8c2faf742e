package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// The engine embedded, from nothing to a run that has ended.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clusters := memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "eu-1", Labels: map[string]string{"tier": "canary"}})
	clusters.Add(placement.Cluster{Name: "eu-2", Labels: map[string]string{"tier": "prod"}})
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"},
	}})
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()

	err = engine.PutPlacement(ctx, fleet.Placement{
		Name:      "shop",
		Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	tier := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name}}
	}
	strategy := stages.Strategy{Stages: []stages.Stage{{Name: "canary", Selector: tier("canary")}, {Name: "prod", Selector: tier("prod")}}}
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
		switch ev.Type {
		case stages.ClusterCompleted:
			fmt.Println("cluster", ev.Cluster, "is done")
		case stages.StageCompleted:
			fmt.Println("stage", ev.Stage, "is done")
		}
	}
	// Output:
	// shop-1 is Completed
	// cluster eu-1 is done
	// stage canary is done
	// cluster eu-2 is done
	// stage prod is done
}

// shop returns the common setup of the other examples: two clusters and a placement.
func shop(ctx context.Context) (*fleet.Engine, *memory.Fleet) {
	clusters := memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "eu-1"})
	clusters.Add(placement.Cluster{Name: "eu-2"})
	source := memory.NewSource(namespace("shop"))
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source})
	if err != nil {
		log.Fatal(err)
	}
	selectors := []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: selectors}); err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()
	return engine, clusters
}

// all returns a strategy with one stage.
func all(after ...stages.Task) stages.Strategy {
	return stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, After: after}}}
}

// A plan is previewed first, and the run is created only if its plan is still the same.
func ExampleEngine_Preview() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, clusters := shop(ctx)

	spec := fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all()}
	preview, err := engine.Preview(ctx, spec)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range preview.Plan.Clusters {
		fmt.Println("will update", c.Name)
	}
	spec.Plan = preview.Plan.Digest

	clusters.Add(placement.Cluster{Name: "eu-3"})
	_, err = engine.CreateRun(ctx, spec)
	fmt.Println("the plan changed:", errors.Is(err, errdef.ErrPlanChanged))
	// Output:
	// will update eu-1
	// will update eu-2
	// the plan changed: true
}

// A gate passes on a decision. By is the identity that the host authenticated.
func ExampleRunHandle_Command() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _ := shop(ctx)
	gate := stages.Task{Type: stages.Approval, Approval: &approval.Policy{ForbidStarter: true}}
	bob := approval.Identity{Name: "bob"}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all(gate), Starter: bob}); err != nil {
		log.Fatal(err)
	}
	events, err := engine.Placement("shop").Follow("")
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range events.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if ev.Type != stages.ApprovalRequested {
			continue
		}
		err := engine.Run(ev.Run).Command(ctx, stages.Command{Verb: stages.Decide, Name: ev.Request, By: bob, Decision: &approval.Decision{Verdict: approval.Approve}})
		fmt.Println("bob is refused:", err != nil)
		ann := approval.Identity{Name: "ann"}
		if err := engine.Run(ev.Run).Command(ctx, stages.Command{Verb: stages.Decide, Name: ev.Request, By: ann, Decision: &approval.Decision{Verdict: approval.Approve}}); err != nil {
			log.Fatal(err)
		}
		break
	}
	status, err := engine.Run("shop-1").Wait(ctx)
	fmt.Println(status.Run.State, err)
	// Output:
	// bob is refused: true
	// Completed <nil>
}

// The host can ask about every cluster at any time.
func ExampleRunHandle_Explain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _ := shop(ctx)
	spec := fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all(), Hold: true}
	if _, err := engine.CreateRun(ctx, spec); err != nil {
		log.Fatal(err)
	}
	x, err := engine.Run("shop-1").Explain(ctx, "eu-2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s is %s in stage %s: %s\n", x.Cluster, x.State, x.Stage, x.Reason)
	for _, w := range x.Waiting {
		fmt.Println("waits for:", w.Kind, w.Name)
	}
	// Output:
	// eu-2 is NotStarted in stage all: the run is NotStarted
	// waits for: Start shop-1
}

// A cursor lets a follower continue after the last event of another one, even in another process.
func ExamplePlacementHandle_Follow() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _ := shop(ctx)
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all()}); err != nil {
		log.Fatal(err)
	}
	read := func(cursor string, until stages.EventType) string {
		events, err := engine.Placement("shop").Follow(cursor)
		if err != nil {
			log.Fatal(err)
		}
		for ev, err := range events.Events(ctx) {
			if err != nil {
				log.Fatal(err)
			}
			if ev.Type == stages.ClusterCompleted {
				fmt.Println("completed:", ev.Cluster)
			}
			if ev.Type == until {
				break
			}
		}
		return events.Cursor()
	}
	cursor := read("", stages.ClusterCompleted)
	fmt.Println("the follower is restarted")
	read(cursor, stages.RunCompleted)
	// Output:
	// completed: eu-1
	// the follower is restarted
	// completed: eu-2
}

// A cluster joins during a run. A catch-up run brings it the same snapshot.
func ExampleRunHandle_CatchUp() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, clusters := shop(ctx)
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all()}); err != nil {
		log.Fatal(err)
	}
	clusters.Add(placement.Cluster{Name: "eu-3"})
	if _, err := engine.Run("shop-1").Wait(ctx); err != nil {
		log.Fatal(err)
	}
	next, err := engine.Run("shop-1").CatchUp(ctx, "shop-1-late", approval.Identity{Name: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range next.Plan.Clusters {
		fmt.Println("late:", c.Name, "gets index", next.Plan.Index)
	}
	status, err := engine.Run("shop-1-late").Wait(ctx)
	fmt.Println(status.Run.State, err)
	// Output:
	// late: eu-3 gets index 0
	// Completed <nil>
}
