package planning

import (
	"context"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
)

// RenderAgain makes again what the snapshots with overrides are for a cluster, so
// that the next load of such a revision finds it. What overrides make of a
// snapshot is stored as long as a run is kept that brings it; the cluster may
// have it for longer.
func (pl *Planner) RenderAgain(ctx context.Context, rec *record.Placement, c placement.Cluster) {
	for _, s := range rec.Snapshots {
		if s.Overrides == "" {
			continue
		}
		if w, err := pl.Want(ctx, rec, &s.Index, []placement.Cluster{c}); err == nil {
			pl.contents.Offer(rec.Placement.Name, w.Of(c.Name))
		}
	}
}

// Offer caches the plan of a draft, and what was read to make it, for the driver of its run in this process.
func (pl *Planner) Offer(d *Draft) {
	pl.state.CachePlan(d.Plan)
	if !slices.Contains(d.Plan.Revisions, d.Frozen.Set) {
		return // every cluster gets what overrides make of it
	}
	if rev, err := member.NewRevision(d.Plan.Placement, d.Frozen.set); err == nil {
		pl.contents.Offer(d.Plan.Placement, rev)
	}
}
