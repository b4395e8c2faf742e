// Command embed is a whole host: it rolls the namespace web of a kubeconfig's current context out to all of its
// contexts, one of them first, with its state in the file slipway.db. Kill it at any moment and start it again: it
// goes on with the run. Change the selector and the strategy to what you roll out; a new name is a new run.
//
//	go run ./examples/embed KUBECONFIG CANARY web-v1     # CANARY is the context that goes first
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func main() {
	flag.Parse()
	file, canary, run := flag.Arg(0), flag.Arg(1), flag.Arg(2)
	cfg := fleet.Config{
		Name:      "embed",
		Store:     must(bolt.Open("slipway.db", bolt.Options{})), // what was written survives a kill: nothing has to be closed
		Inventory: inventory.KubeconfigClusters{Path: file, Labels: map[string]map[string]string{canary: {"tier": "canary"}}},
		Dialer:    member.NewDialer(member.KubeconfigContexts(file, member.Trusted()), member.Options{}),
		Source:    must(source.New(must(clientcmd.BuildConfigFromFlags("", file)), source.Options{})),
	}
	must(0, rollOut(context.Background(), cfg, run, stages.Task{Type: stages.TimedWait, Wait: time.Hour}))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func rollOut(ctx context.Context, cfg fleet.Config, run string, gate stages.Task) error {
	engine, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	go engine.Run(ctx) // drives runs until ctx ends
	web := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, web); err != nil {
		return err
	}
	canary, others := metav1.LabelSelector{MatchLabels: map[string]string{"tier": "canary"}}, metav1.LabelSelector{}
	others.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "DoesNotExist"}}
	strategy := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Selector: &canary, After: []stages.Task{gate}},
		{Name: "others", Selector: &others},
	}}
	// The run is created, or is there from before. The error is every problem of its plan at once.
	if _, err := engine.EnsureRun(ctx, fleet.RunSpec{Name: run, Placement: "web", Strategy: strategy}); err != nil {
		return err
	}
	events, err := engine.FollowRun(run, "")
	if err != nil {
		return err
	}
	for e, err := range events.Events(ctx) { // to the end of the run
		if err != nil {
			return err
		}
		fmt.Println(e.Time.Format(time.TimeOnly), e.Type, e.Stage, e.Cluster, e.Message)
	}
	status, err := engine.Status(ctx, run)
	if err == nil && status.Run.State != stages.Completed { // a gate was rejected, a budget exceeded, or it was aborted
		err = fmt.Errorf("run %s is %s: %s", run, status.Run.State, status.Run.Reason)
	}
	return err
}
