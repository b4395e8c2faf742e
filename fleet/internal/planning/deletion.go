package planning

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// Cleaning returns the strategy of the run that cleans the clusters of a deleted placement.
func Cleaning(d *lifecycle.Deletion) stages.Strategy {
	return stages.Strategy{
		Name: "deletion", Stages: []stages.Stage{{Name: "none"}},
		Removal: stages.Removal{MaxConcurrency: d.MaxConcurrency, Deadline: d.Deadline},
	}
}

// DraftDeletion plans a run that cleans all clusters of the inventory that may have objects of the
// placement.
func (pl *Planner) DraftDeletion(ctx context.Context, rec *record.Placement) (*Draft, error) {
	d := &Draft{Sweeps: rec.GCGeneration}
	inventory, err := pl.state.World.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	target := stages.Target{
		Placement: rec.Placement.Name, Snapshot: rec.UID, Selection: rec.UID, Revision: map[string]string{},
	}
	if last, ok := rec.Latest(); ok {
		target.Index, target.Snapshot = last.Index, last.Digest
	}
	held, err := pl.state.BindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	target.Remove = unpicked(held, d.Selection, inventory)
	d.Plan, err = planner.Plan(Cleaning(rec.Deleting), target, nil)
	return d, err
}
