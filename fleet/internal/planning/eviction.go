package planning

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// draftEviction plans a run that only cleans the clusters that its strategy names. The selection
// that is recorded with the run excludes them, so that they count as new when they are picked
// again.
func (pl *Planner) draftEviction(ctx context.Context, rec *record.Placement, spec Request) (*Draft, error) {
	last, ok := rec.Latest()
	if !ok {
		return nil, errdef.NotFound(errdef.Snapshot, "of placement "+rec.Placement.Name, "no cluster has anything of it")
	}
	if spec.Index != nil && *spec.Index != last.Index {
		return nil, fmt.Errorf("a run that evicts brings no snapshot: leave the index %d out", *spec.Index)
	}
	inventory, err := pl.state.World.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	held, err := pl.state.BindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	r, err := pl.resolveOver(ctx, rec, inventory, held, spec.Strategy.Removal.Only)
	if err != nil {
		return nil, err
	}
	target := stages.Target{
		Placement: rec.Placement.Name, Index: last.Index, Snapshot: last.Digest, Selection: r.Digest,
		Revision: map[string]string{}, Remove: map[string]string{},
	}
	for _, name := range spec.Strategy.Removal.Only {
		c, known := inventory[name]
		if !known {
			return nil, errdef.NotFound(errdef.Cluster, name, "it is not in the inventory")
		}
		if _, bound := held[name]; !bound {
			return nil, errdef.NotFound(errdef.Cluster, name, "placement "+rec.Placement.Name+" has nothing there")
		}
		target.Remove[name] = c.UID
	}
	d := &Draft{Selection: r.Selection, Sweeps: rec.GCGeneration}
	if d.Plan, err = planner.Plan(spec.Strategy, target, nil); err != nil {
		return d, err
	}
	return d, pl.checkGates(d.Plan)
}
