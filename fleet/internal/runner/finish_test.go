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
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// options returns the options of a runner on a store, without an updater.
func options(store backend.Store) Options {
	log := slog.New(slog.DiscardHandler)
	o := Options{Store: store, Clock: time.Now, Log: log, Name: "test", Lease: 15 * time.Second, Skew: time.Second, Poll: time.Second, CallTimeout: time.Minute}
	o.State = state.New(state.Options{
		Store: store, Contents: content.New(store), Inventory: memory.NewFleet(placement.Cluster{Name: "c"}), Clock: time.Now, Log: log,
		Name: o.Name, Lease: o.Lease, Poll: o.Poll, CallTimeout: o.CallTimeout,
	})
	o.Caps, o.Commands = caps.New(store, o.State), commands.New(store, o.State, log)
	o.Drifts = driftwatch.New(driftwatch.Options{Store: store, State: o.State, Name: o.Name, Lease: o.Lease, Skew: o.Skew, Poll: o.Poll, CallTimeout: o.CallTimeout, Log: log})
	return o
}

// started stores placement p with run r and returns the run, its plan and the revisions of both
// records. holder has the lease at epoch 2.
func started(t *testing.T, store backend.Store, holder string) (rr *record.Run, plan *stages.Plan, run, placed backend.Revision) {
	t.Helper()
	ctx := t.Context()
	plan, err := planner.Plan(stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
		stages.Target{Placement: "p", Snapshot: "s", Selection: "d", Default: "content"}, []placement.Cluster{{Name: "c"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := state.New(state.Options{Store: store, Contents: content.New(store)}).Plans.Write(ctx, plan); err != nil {
		t.Fatal(err)
	}
	rr = &record.Run{Run: step.NewRun(plan, "r", "uid-r", approval.Identity{}, false, time.Now()), Of: "uid-p", Lease: record.Lease{Holder: holder, Epoch: 2}}
	if holder != "" {
		rr.Run.State = stages.Running
	}
	if run, err = store.Put(ctx, record.RunKey("r"), rr.Encode(), ""); err != nil {
		t.Fatal(err)
	}
	entry := lifecycle.Entry{UID: "uid-r", Run: "r"}
	p := record.Placement{Format: record.Format, Placement: record.Declaration{Name: "p"}, Key: record.NewKey(), State: lifecycle.State{
		UID: "uid-p", Epoch: 2, Queue: lifecycle.Queue{Active: &entry}, Runs: []lifecycle.Run{{Name: "r", UID: "uid-r", Plan: plan.Digest}},
	}}
	if placed, err = store.Put(ctx, record.PlacementKey("p"), record.Encode(&p), ""); err != nil {
		t.Fatal(err)
	}
	return rr, plan, run, placed
}

// An engine saw a run fail and was paused before it recorded that with the placement. It does not
// remove the run from the queue if another engine has retried the run since (T16).
func TestT16ALateEndDoesNotEndARunThatWasStartedAgain(t *testing.T) {
	store := memory.NewStore()
	rr, plan, rev, before := started(t, store, "new")
	paused := *rr
	paused.Lease, paused.Run.State = record.Lease{Holder: "paused", Epoch: 1}, stages.Failed
	if err := newDriver(newEngine(options(store)), taken{rec: &paused, rev: rev, plan: plan, placement: &record.Placement{}}).finish(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the late end: %v, want that it is fenced", err)
	}
	if after, _ := store.Get(t.Context(), record.PlacementKey("p")); after.Revision != before {
		t.Errorf("the placement was written: %s", after.Value)
	}
}
