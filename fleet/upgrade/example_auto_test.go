package upgrade_test

import (
	"context"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/trigger"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A fleet follows the channel Stable: the trigger creates a run for each new release.
func ExampleAutoUpgrade() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, provider := memory.NewStore(), cloud()
	inventory := memory.NewFleet(placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "us-1"})
	strategy := stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	catalog := &catalog{releases: []upgrade.Release{{Version: "1.29.4"}, {Version: "1.30.2"}, {Version: "1.31.0"}}}

	auto := &upgrade.AutoUpgrade{
		Name: "fleet", Profile: upgrade.Profile{Channel: upgrade.Stable},
		Catalog: catalog, Provider: provider, Inventory: inventory, Strategy: strategy,
	}
	engine, err := fleet.New(fleet.Config{Store: store, Inventory: inventory, Source: auto, Updater: upgrade.NewUpdater(provider)})
	if err != nil {
		log.Fatal(err)
	}
	err = engine.PutPlacement(ctx, fleet.Placement{Name: "fleet", Selectors: []snapshot.Selector{upgrade.Selector("fleet")}})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()
	created := make(chan string, 1)
	controller := trigger.Controller{
		Engine: engine, Interval: time.Hour,
		Triggers: func(context.Context) ([]trigger.Trigger, error) {
			return []trigger.Trigger{{Name: "stable", Placement: "fleet", Strategy: strategy, Revision: auto.Revision}}, nil
		},
		Tell: func(_ trigger.Trigger, o trigger.Outcome, err error) {
			if err != nil {
				log.Fatal(err)
			}
			created <- o.Run
		},
	}
	go func() { _ = controller.Run(ctx) }()

	status, err := engine.Run(<-created).Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	c, _ := provider.Cluster("us-1")
	fmt.Println(status.Run.Name, status.Run.State, c.ControlPlane)
	// Output:
	// stable-1.30.2 Completed 1.30.2
}
