package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// A preview shows the changes of a run before it exists. The digest of the plan covers the content
// of each cluster, so an approval of that digest approves these changes.
func ExamplePreview_Diff() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _ := shop(ctx)
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: all()}); err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Run("shop-1").Wait(ctx); err != nil {
		log.Fatal(err)
	}
	owner := placement.Override{
		Name: "owner", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "shop"}},
		Rules: []placement.Rule{{
			ClusterSelector: &placement.ClusterSelector{}, // every cluster
			Patches: []placement.Patch{{
				Op: placement.OpAdd, Path: "/metadata/labels", Value: json.RawMessage(`{"owner":"${MEMBER-CLUSTER-NAME}-team"}`),
			}},
		}},
	}
	err := engine.PutPlacement(ctx, fleet.Placement{
		Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}},
		Overrides: []placement.Override{owner},
	})
	if err != nil {
		log.Fatal(err)
	}

	spec := fleet.RunSpec{Name: "shop-2", Placement: "shop", Strategy: all()}
	preview, err := engine.Preview(ctx, spec)
	if err != nil {
		log.Fatal(err)
	}
	for c, err := range preview.Diff(ctx, "eu-1", "eu-2") {
		if err != nil {
			log.Fatal(err)
		}
		for _, o := range c.Objects {
			for _, d := range o.Differences {
				fmt.Println(c.Cluster, o.Reason, o.Kind, o.Name, d.Path, string(d.Hub))
			}
		}
	}
	spec.Plan = preview.Plan.Digest // only this plan
	if _, err := engine.CreateRun(ctx, spec); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// eu-1 ToChange Namespace shop /metadata/labels {"owner":"eu-1-team"}
	// eu-2 ToChange Namespace shop /metadata/labels {"owner":"eu-2-team"}
}
