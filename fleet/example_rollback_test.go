package fleet_test

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A change that fails on the second cluster is rolled back on the first one, which had an earlier
// version before.
func ExampleRunHandle_RollbackStatus() {
	members := memory.NewFleet(placement.Cluster{Name: "east"}, placement.Cluster{Name: "west"})
	source := memory.NewSource(namespace("test-namespace"), configMap("web", "good"))
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: source})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = engine.Start(ctx) }()
	members.Cluster("west").Refuse(func(obj *unstructured.Unstructured) error {
		if v, _, _ := unstructured.NestedString(obj.Object, "data", "key"); v == "bad" {
			return errors.New("not admitted")
		}
		return nil
	})
	strategy := stages.Strategy{
		Attempts: 1, Rollback: &stages.RollbackPolicy{},
		Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}},
	}
	err = engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}}})
	for _, value := range []string{"good", "bad"} {
		err = errors.Join(err, source.Put(configMap("web", value)))
		_, created := engine.CreateRun(ctx, fleet.RunSpec{Name: value, Placement: "web", Strategy: strategy})
		s, waited := engine.Run(value).Wait(ctx)
		err = errors.Join(err, created, waited)
		fmt.Println(value, "is", s.Run.State)
	}
	var back fleet.Rollback
	for (back.By == "" || back.Pending) && err == nil {
		back, err = engine.Run("bad").RollbackStatus(ctx)
	}
	s, waited := engine.Run(back.By).Wait(ctx)
	if err := errors.Join(err, waited); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(back.By, "is", s.Run.State, "and brought", len(s.Plan.Clusters), "clusters to snapshot", s.Plan.Index)
	// Output:
	// good is Completed
	// bad is Failed
	// bad-rollback is Completed and brought 2 clusters to snapshot 0
}
