package planning

import (
	"context"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
)

// RenderAgain renders the snapshots with overrides for a cluster and caches the revisions, so that
// the next load of such a revision finds it. The store drops rendered content with the last run
// that places it, but the cluster may have the content for longer.
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

// Offer caches the plan of a draft, and the content that was read for it, for the driver of its run
// in this process.
func (pl *Planner) Offer(d *Draft) {
	pl.state.Plans.Cache(d.Plan)
	if !slices.Contains(d.Plan.Revisions, d.Frozen.Set) {
		return // every cluster gets content that overrides changed
	}
	if rev, err := member.NewRevision(d.Plan.Placement, d.Frozen.set); err == nil {
		pl.contents.Offer(d.Plan.Placement, rev)
	}
}
