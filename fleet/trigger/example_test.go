package trigger_test

import (
	"context"
	"fmt"
	"log"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/trigger"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A run is created when the source holds something new, and only then.
func ExampleFire() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	settings := func(color string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "default"}, "data": map[string]any{"color": color},
		}}
	}
	source, clusters := memory.NewSource(settings("blue")), memory.NewFleet(placement.Cluster{Name: "eu-1"})
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source})
	if err != nil {
		log.Fatal(err)
	}
	err = engine.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "ConfigMap"}}})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()

	auto := trigger.Trigger{Name: "shop", Placement: "shop", Strategy: stages.Strategy{
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}},
	}}
	fire := func() {
		outcome, err := trigger.Fire(ctx, engine, auto)
		if err != nil {
			log.Fatal(err)
		}
		status, err := engine.Run(outcome.Run).Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(outcome.State, outcome.Run, status.Run.State)
	}
	fire()
	fire()
	if err := source.Put(settings("green")); err != nil {
		log.Fatal(err)
	}
	fire()
	// Output:
	// Created shop-0 Completed
	// Current shop-0 Completed
	// Created shop-1 Completed
}
