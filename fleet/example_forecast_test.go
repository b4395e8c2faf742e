package fleet_test

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A forecast predicts the end of a run that does not exist yet. No earlier run shows how long the
// clusters take, so the example assumes a duration.
func ExamplePreview_Forecast() {
	members := memory.NewFleet(placement.Cluster{Name: "east"}, placement.Cluster{Name: "west"})
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespace("web")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	web := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, web); err != nil {
		fmt.Println(err)
		return
	}
	gate := stages.Task{Type: stages.Approval}
	preview, err := engine.Preview(ctx, fleet.RunSpec{Placement: "web", Strategy: stages.Strategy{Stages: []stages.Stage{
		{Name: "all", Selector: &metav1.LabelSelector{}, After: []stages.Task{gate}},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := preview.Forecast(ctx, fleet.Assumptions{Take: metav1.Duration{Duration: 5 * time.Minute}, Approve: metav1.Duration{Duration: time.Hour}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.End.State, "after", f.End.At.Duration)
	// Output: Completed after 1h10m0s
}
