package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// webOn returns an engine that has rolled out value to the clusters of placement web, by a run with
// that name.
func webOn(ctx context.Context, value string, clusters ...string) (*fleet.Engine, *memory.Source, error) {
	members := memory.NewFleet()
	for _, name := range clusters {
		members.Add(placement.Cluster{Name: name})
	}
	source := memory.NewSource(namespace("test-namespace"))
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: source, Poll: 10 * time.Millisecond})
	if err != nil {
		return nil, nil, err
	}
	go func() { _ = engine.Start(ctx) }()
	err = engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}}})
	return engine, source, errors.Join(err, roll(ctx, engine, source, value))
}

// roll rolls out a value to all clusters of placement web.
func roll(ctx context.Context, engine *fleet.Engine, source *memory.Source, value string) error {
	if err := source.Put(configMap("web", value)); err != nil {
		return err
	}
	_, err := engine.CreateRun(ctx, fleet.RunSpec{Name: value, Placement: "web", Strategy: stages.Strategy{
		Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}},
	}})
	if err != nil {
		return err
	}
	_, err = engine.Run(value).Wait(ctx)
	return err
}

// An audit log of a placement: its own events, page by page, and the clusters of its last
// selection.
func ExamplePlacementHandle_History() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _, err := webOn(ctx, "v1", "oslo", "rome")
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := engine.Placement("web").History(ctx, 0)
	for _, event := range page.Events {
		fmt.Println(event.Type)
	}
	fmt.Println(page.Next == int64(len(page.Events)), err)
	view, err := engine.Placement("web").View(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	last, err := view.Selection(ctx)
	fmt.Println(last.Clusters, err)
	// Output:
	// SnapshotTaken
	// SelectionChanged
	// RunCreated
	// true <nil>
	// [oslo rome] <nil>
}

// A preview shows the changes of a rollback before it is requested.
func ExampleRunHandle_PreviewRollback() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, source, err := webOn(ctx, "v1", "oslo", "rome")
	if err = errors.Join(err, roll(ctx, engine, source, "v2")); err != nil {
		fmt.Println(err)
		return
	}
	plan, err := engine.Run("v2").PreviewRollback(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(plan.Clusters), "clusters go back to snapshot", plan.Index)
	// Output:
	// 2 clusters go back to snapshot 0
}

// The report of a deletion stays until it was read, or a placement of the name is
// declared again.
func ExamplePlacementHandle_ForgetDeletion() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine, _, err := webOn(ctx, "v1", "oslo")
	if err = errors.Join(err, engine.Placement("web").Delete(ctx, fleet.DeleteOptions{})); err != nil {
		fmt.Println(err)
		return
	}
	var d fleet.Deletion
	for d.Ended.IsZero() && err == nil {
		d, err = engine.Placement("web").Deletion(ctx)
	}
	fmt.Println(len(d.SkippedClusters), "clusters were skipped", err)
	fmt.Println(engine.Placement("web").ForgetDeletion(ctx))
	_, err = engine.Placement("web").Deletion(ctx)
	fmt.Println(errors.Is(err, backend.ErrNotFound))
	// Output:
	// 0 clusters were skipped <nil>
	// <nil>
	// true
}
