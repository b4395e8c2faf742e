package upgrade_test

import (
	"context"
	"fmt"
	"log"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// cloud returns a provider with three clusters in two regions. Region eu offers a newer image than
// region us, and cluster eu-2 is already upgraded.
func cloud() *embedded.Provider {
	cluster := func(region, version, image string) *embedded.Cluster {
		pool := upgrade.Pool{Name: "nodes", Version: version, Image: image}
		return &embedded.Cluster{Region: region, ControlPlane: version, Pools: []upgrade.Pool{pool}}
	}
	return embedded.New(embedded.State{
		Regions: map[string]*embedded.Region{
			"eu": {Images: map[string][]string{"": {"2026.03", "2026.02", "2026.01"}}},
			"us": {Images: map[string][]string{"": {"2026.02", "2026.01"}}},
		},
		Versions: []string{"1.29.4", "1.30.2", "1.31.0"},
		Clusters: map[string]*embedded.Cluster{
			"eu-1": cluster("eu", "1.29.4", "2026.01"),
			"eu-2": cluster("eu", "1.30.2", "2026.02"),
			"us-1": cluster("us", "1.29.4", "2026.01"),
		},
		Takes: metav1.Duration{Duration: time.Millisecond},
	}, nil)
}

// A fleet is upgraded to a version, with the newest node image that all of its regions have.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	provider := cloud()
	clusters := []placement.Cluster{{Name: "eu-1"}, {Name: "eu-2"}, {Name: "us-1"}}
	inventory := memory.NewFleet()
	for _, c := range clusters {
		inventory.Add(c)
	}
	target, err := upgrade.Resolve(ctx, provider, clusters, upgrade.Target{
		Type: upgrade.Full, KubernetesVersion: "1.30.2", NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("node image:", target.NodeImages.Versions)

	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: inventory,
		Source: upgrade.Source("fleet", target), Updater: upgrade.NewUpdater(provider),
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { _ = engine.Start(ctx) }()
	err = engine.PutPlacement(ctx, fleet.Placement{Name: "fleet", Selectors: []snapshot.Selector{upgrade.Selector("fleet")}})
	if err != nil {
		log.Fatal(err)
	}
	oneByOne := stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "run-1", Placement: "fleet", Strategy: oneByOne}); err != nil {
		log.Fatal(err)
	}
	status, err := engine.Run("run-1").Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for pos, state := range status.Run.States(status.Plan) {
		c, _ := provider.Cluster(status.Plan.Clusters[pos].Name)
		fmt.Println(status.Plan.Clusters[pos].Name, state, c.ControlPlane, c.Pools[0].Version, c.Pools[0].Image)
	}
	// Output:
	// node image: [2026.02]
	// eu-1 Completed 1.30.2 1.30.2 2026.02
	// eu-2 Skipped 1.30.2 1.30.2 2026.02
	// us-1 Completed 1.30.2 1.30.2 2026.02
}

// Problems of all clusters are found before any upgrade starts.
func ExampleCheck() {
	err := upgrade.Check(map[string]upgrade.Cluster{
		"a": {ControlPlane: "1.28.9"},
		"b": {ControlPlane: "1.29.4"},
		"c": {ControlPlane: "1.31.0", Pools: []upgrade.Pool{{Name: "nodes", Version: "1.30.2"}}},
	}, upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30.2"})
	fmt.Println(err)
	// Output:
	// cluster a: control plane: it has 1.28.9 and would skip minor versions on the way to 1.30.2: go to 1.29 first
	// cluster c: control plane: it has 1.31.0 and would go down to 1.30.2: an upgrade only goes up
}
