package fleet_test

import (
	"context"
	"fmt"
	"log"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// rollOut is the code that a host runs at each start: it creates or finds the run, and follows it
// to its end. answer is the answer of people at its gates. If the run is stopped, rollOut returns
// early with a cursor.
func rollOut(ctx context.Context, engine *fleet.Engine, spec fleet.RunSpec, after string, answer approval.Verdict) (cursor string) {
	if _, err := engine.EnsureRun(ctx, spec); err != nil {
		log.Fatal(err)
	}
	events, err := engine.Run(spec.Name).Follow(after)
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range events.Events(ctx) {
		if err != nil {
			log.Fatal(err) // ctx has ended, or the run was deleted
		}
		switch ev.Type {
		case stages.ClusterCompleted:
			fmt.Println("cluster", ev.Cluster, "is done")
		case stages.ApprovalRequested:
			by := approval.Identity{Name: "ann"}
			if err := engine.Run(ev.Run).Command(ctx, stages.Command{Verb: stages.Decide, Name: ev.Request, By: by, Decision: &approval.Decision{Verdict: answer}}); err != nil {
				log.Fatal(err)
			}
		case stages.RunStopped:
			fmt.Println("the run is stopped") // after a start, the events continue after the cursor
			return events.Cursor()
		}
	}
	status, err := engine.Run(spec.Name).Status(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.Run.Name, "is", status.Run.State)
	if status.Run.Reason != "" {
		fmt.Println("because", status.Run.Reason)
	}
	return events.Cursor()
}

// A host follows one run to its end, does the same after a restart, and sees the end of a run with
// a rejected gate.
func ExampleEngine_EnsureRun() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _ := shop(ctx)
	first := fleet.RunSpec{Name: "shop-v1", Placement: "shop", Strategy: all()}
	rollOut(ctx, engine, first, "", approval.Approve)
	fmt.Println("the host is restarted")
	rollOut(ctx, engine, first, "", approval.Approve)

	gate := stages.Task{Type: stages.Approval}
	second := fleet.RunSpec{Name: "shop-v2", Placement: "shop", Strategy: all(gate)}
	rollOut(ctx, engine, second, "", approval.Reject)
	// Output:
	// cluster eu-1 is done
	// cluster eu-2 is done
	// shop-v1 is Completed
	// the host is restarted
	// cluster eu-1 is done
	// cluster eu-2 is done
	// shop-v1 is Completed
	// cluster eu-1 is done
	// cluster eu-2 is done
	// shop-v2 is Failed
	// because request shop-v2-after-all was rejected by ann
}
