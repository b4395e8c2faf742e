package runner

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// An engine that saw a run fail, and was paused before it recorded that with the placement, does not take the
// run out of the queue when another engine has started it again meanwhile (T16).
func TestT16ALateEndDoesNotEndARunThatWasStartedAgain(t *testing.T) {
	ctx, store := t.Context(), memory.NewStore()
	o := Options{Store: store, Clock: time.Now, Log: slog.New(slog.DiscardHandler), State: state.New(state.Options{
		Store: store, Contents: content.New(store), Inventory: memory.NewFleet(), Clock: time.Now, Log: slog.New(slog.DiscardHandler), CallTimeout: time.Minute,
	})}
	plan, err := stages.NewPlan(stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
		stages.Target{Placement: "p", Snapshot: "s", Decision: "d", Default: "content"}, []placement.Cluster{{Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	run := stages.NewRun(plan, "r", "uid-r", approval.Identity{}, false, time.Now())
	run.State = stages.Running
	started := &record.Run{Run: run, Of: "uid-p", Lease: record.Lease{Holder: "new", Epoch: 2}}
	rev, err := store.Put(ctx, record.RunKey("r"), started.Encode(), "")
	if err != nil {
		t.Fatal(err)
	}
	entry := lifecycle.Entry{UID: "uid-r", Run: "r"}
	p := record.Placement{Format: record.Format, Placement: record.Declaration{Name: "p"}, Key: record.NewKey(), State: lifecycle.State{
		UID: "uid-p", Epoch: 2, Queue: lifecycle.Queue{Active: &entry}, Runs: []lifecycle.Run{{Name: "r", UID: "uid-r", Plan: plan.Digest}},
	}}
	before, err := store.Put(ctx, record.PlacementKey("p"), record.Encode(&p), "")
	if err != nil {
		t.Fatal(err)
	}
	paused := *started
	paused.Lease, paused.Run.State = record.Lease{Holder: "paused", Epoch: 1}, stages.Failed
	if err := newDriver(newEngine(o), &paused, rev, plan).finish(ctx); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the late end: %v, want that it is fenced", err)
	}
	if after, _ := store.Get(ctx, record.PlacementKey("p")); after.Revision != before {
		t.Errorf("the placement was written: %s", after.Value)
	}
}
