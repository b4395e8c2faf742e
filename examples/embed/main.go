// Command embed is a complete host: it rolls the namespace web of a kubeconfig's current context
// out to all of its contexts, one of them first, with its state in the file slipway.db. Kill it
// at any moment and start it again: it continues the run. Change the selector and the strategy
// for your content; a new name is a new run.
//
//	go run ./examples/embed KUBECONFIG CANARY web-v1     # CANARY is the context that goes first
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"sync"
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
	if flag.Parse(); flag.NArg() != 3 {
		log.Fatal("usage: embed KUBECONFIG CANARY RUN")
	}
	file, canary, run := flag.Arg(0), flag.Arg(1), flag.Arg(2)
	cfg := fleet.Config{
		Name:      "embed",
		Store:     must(bolt.Open("slipway.db", bolt.Options{})), // open until the process ends; a kill does no harm
		Inventory: inventory.KubeconfigClusters{Path: file},
		Dialer:    member.NewDialer(member.KubeconfigContexts(file, member.Trusted()), member.Options{}),
		Source:    must(source.New(must(clientcmd.BuildConfigFromFlags("", file)), source.Options{})),
	}
	strategy := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Clusters: []string{canary}, After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}},
		{Name: "others", Rest: true},
	}}
	fmt.Println(must(rollOut(context.Background(), cfg, fleet.RunSpec{Name: run, Placement: "web", Strategy: strategy})))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// rollOut starts or continues a run, and returns its final state.
func rollOut(ctx context.Context, cfg fleet.Config, run fleet.RunSpec) (stages.State, error) {
	engine, err := fleet.New(cfg)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(ctx)
	var driving sync.WaitGroup
	driving.Go(func() { _ = engine.Start(ctx) }) // drives runs until ctx ends
	defer driving.Wait()                         // the store must stay open until then
	defer stop()
	web := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, web); err != nil {
		return "", err
	}
	if _, err := engine.EnsureRun(ctx, run); err != nil { // if the plan has problems, the error has all of them
		return "", err
	}
	events, err := engine.Run(run.Name).Follow("")
	if err != nil {
		return "", err
	}
	for e, err := range events.Events(ctx) { // to the end of the run and, if it is rolled back, of its rollback
		if err != nil {
			return "", err
		}
		fmt.Println(e.Time.Format(time.TimeOnly), e.Type, e.Stage, e.Cluster, e.Message)
	}
	status, err := engine.Run(run.Name).Status(ctx)
	if err == nil && status.Run.State != stages.Completed { // a gate was rejected, a budget exceeded, or it was aborted
		err = fmt.Errorf("run %s is %s: %s", run.Name, status.Run.State, status.Run.Reason)
	}
	return status.Run.State, err
}
