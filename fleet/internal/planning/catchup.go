package planning

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// DraftCatchUp plans a catch-up run for the clusters that another run missed.
func (pl *Planner) DraftCatchUp(ctx context.Context, rec *record.Placement, s *state.RunStatus) (*Draft, error) {
	if err := state.Open(rec); err != nil {
		return nil, err
	}
	if len(s.Plan.Strategy.Removal.Only) > 0 {
		return nil, errors.New("it evicts clusters, and the next run or another eviction cleans the remaining clusters")
	}
	inventory, err := pl.state.World.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	d := &Draft{Sweeps: rec.GCGeneration}
	r, err := pl.Resolve(ctx, rec, inventory)
	if err != nil {
		return nil, err
	}
	d.Selection = r.Selection
	if d.Frozen, err = pl.load(ctx, rec, s.Plan.Index); err != nil {
		return nil, err
	}
	joined, err := d.joiners(s.Plan, inventory, pl.Bans(rec.Placement.Namespace))
	if err != nil {
		return nil, err
	}
	target, err := planner.CatchUp(s.Plan, missed(s, d.Selection, inventory), joined)
	if err != nil {
		return nil, err
	}
	if len(target.Revision)+len(target.Remove) == 0 {
		return nil, errors.New("no cluster failed, was skipped or joined")
	}
	if len(joined) > 0 {
		target.Selection = d.Selection.Digest
	}
	var clusters []placement.Cluster
	for name := range target.Revision {
		clusters = append(clusters, inventory[name])
	}
	held, err := pl.state.BindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	target.New = unbound(held, clusters)
	if target.Unproven, err = pl.unproven(ctx, rec, &s.Plan.Strategy, held, clusters); err != nil {
		return nil, err
	}
	if d.Plan, err = planner.Plan(s.Plan.Strategy, target, clusters); err != nil {
		return d, err
	}
	d.warn(r.Shortfall)
	return d, pl.preflight(ctx, d, clusters)
}

// missed returns the clusters that a run did not bring to their revision and that are still picked,
// or that it did not clean and that must still be cleaned.
func missed(s *state.RunStatus, d placement.Selection, inventory map[string]placement.Cluster) []string {
	var out []string
	for pos, state := range s.Run.States(s.Plan) {
		c := &s.Plan.Clusters[pos]
		_, known := inventory[c.Name]
		_, picked := slices.BinarySearch(d.Clusters, c.Name)
		if state != stages.Completed && known && picked == (c.Revision >= 0) {
			out = append(out, c.Name)
		}
	}
	return out
}

// joiners returns the picked clusters that the plan does not update, each with the digest of its
// content of the plan's snapshot.
func (d *Draft) joiners(p *stages.Plan, inventory map[string]placement.Cluster, never *Bans) (map[string]string, error) {
	out := map[string]string{}
	var clusters []placement.Cluster
	for _, name := range d.Selection.Clusters {
		if pos, ok := p.Position(name); !ok || p.Clusters[pos].Revision < 0 {
			clusters = append(clusters, inventory[name])
			out[name] = d.Frozen.Set
		}
	}
	t := stages.Target{Revision: map[string]string{}}
	if err := d.render(&t, clusters, never); err != nil {
		return nil, err
	}
	maps.Copy(out, t.Revision)
	return out, nil
}
