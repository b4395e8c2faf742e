package fleet_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// labelled is the namespace of the shop after an edit by hand.
func labelled(owner string) *unstructured.Unstructured {
	obj := namespace("shop")
	obj.SetLabels(map[string]string{"owner": owner})
	return obj
}

// A report compares every cluster with its placed content at any time, and groups clusters with the
// same differences.
func ExamplePlacementHandle_Drift() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, clusters := shop(ctx)
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all()}); err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Run("shop-1").Wait(ctx); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"eu-1", "eu-2"} {
		if err := clusters.Cluster(name).Update(labelled("chen")); err != nil {
			log.Fatal(err)
		}
	}

	var found []drift.ClusterReport
	for c, err := range engine.Placement("shop").Drift(ctx, fleet.DriftOptions{Comparison: drift.Full}) {
		if err != nil {
			log.Fatal(err)
		}
		found = append(found, c)
	}
	for _, g := range fleet.GroupDrift(found) {
		for _, o := range g.Objects {
			for _, d := range o.Differences {
				fmt.Println(g.Clusters, o.Kind, o.Name, d.Class, d.Path, string(d.Member))
			}
		}
	}
	// Output:
	// [eu-1 eu-2] Namespace shop Unmanaged /metadata/labels/owner "chen"
}

// A placement that only reports compares clusters and writes to none.
func ExamplePlacement_reportDiff() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, clusters := shop(ctx)
	if err := clusters.Cluster("eu-1").Update(labelled("chen")); err != nil {
		log.Fatal(err)
	}
	err := engine.PutPlacement(ctx, fleet.Placement{
		Name:          "audit",
		Selectors:     []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}},
		ApplyStrategy: apply.Strategy{Type: apply.ReportDiff, ComparisonOption: drift.Full},
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "audit-1", Placement: "audit", Strategy: all()}); err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Run("audit-1").Wait(ctx); err != nil {
		log.Fatal(err)
	}
	for c, err := range engine.Placement("audit").Drift(ctx, fleet.DriftOptions{Recorded: true}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, o := range c.Objects {
			fmt.Println(c.Cluster, o.Kind, o.Name, o.State, o.Reason)
		}
	}
	// Output:
	// eu-1 Namespace shop Present FoundDiff
	// eu-2 Namespace shop Missing FoundDiff
}

// A stage waits while one of its clusters has drifted.
func ExampleNoDrift() {
	strategy := all()
	strategy.Stages[0].Before = []stages.Task{fleet.NoDrift()}
	fmt.Println(strategy.Validate())
	// Output:
	// <nil>
}
