package fleet

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// idle is an updater that is not asked for anything.
type idle struct{}

func (idle) Update(context.Context, Assignment) (Report, error)  { return Report{}, nil }
func (idle) Observe(context.Context, Assignment) (Report, error) { return Report{}, nil }

// An engine that saw a run fail, and was paused before it recorded that with the
// placement, does not take the run out of the line when another engine has
// started it again meanwhile (T16).
func TestT16ALateEndDoesNotEndARunThatWasStartedAgain(t *testing.T) {
	s := memory.NewStore()
	e, err := New(Config{Store: s, Inventory: memory.NewFleet(placement.Cluster{Name: "c"}), Updater: idle{}, Source: memory.NewSource(namespaceObject("web"))})
	if err != nil {
		t.Fatal(err)
	}
	selector := snapshot.Selector{Version: "v1", Kind: "Namespace", Name: "web"}
	if err := e.PutPlacement(t.Context(), Placement{Name: "p", Selectors: []snapshot.Selector{selector}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateRun(t.Context(), RunSpec{Name: "r", Placement: "p", Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}}); err != nil {
		t.Fatal(err)
	}
	rec, rev, err := e.runAt(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	paused := *rec
	paused.Lease, paused.Run.State = record.Lease{Holder: "paused", Epoch: 1}, stages.Failed
	rec.Lease, rec.Run.State = record.Lease{Holder: "new", Epoch: 2}, stages.Running
	if _, err := s.Put(t.Context(), record.RunKey("r"), record.Encode(rec), rev); err != nil {
		t.Fatal(err)
	}
	plan, err := e.readPlan(t.Context(), rec.Run.Plan)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.Get(t.Context(), record.PlacementKey("p"))
	if err := newDriver(e, &paused, rev, plan).finish(t.Context()); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the late end: %v, want that it is fenced", err)
	}
	if after, _ := s.Get(t.Context(), record.PlacementKey("p")); after.Revision != before.Revision {
		t.Errorf("the placement was written: %s", after.Value)
	}
}
