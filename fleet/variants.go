package fleet

import (
	"context"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
)

// renderAgain makes again what the snapshots with overrides are for a cluster, so
// that the next load of such a revision finds it. What overrides make of a
// snapshot is stored as long as a run is kept that brings it; the cluster may
// have it for longer.
func (e *Engine) renderAgain(ctx context.Context, rec *record.Placement, c placement.Cluster) {
	for _, s := range rec.Snapshots {
		if s.Overrides == "" {
			continue
		}
		if w, err := e.want(ctx, rec, &s.Index, []placement.Cluster{c}); err == nil {
			e.contents.offer(rec.Placement.Name, w.of(c.Name))
		}
	}
}

// offer caches a revision that was made here, so that loads of it need not read it.
func (c *contents) offer(placement string, rev *member.Revision) {
	c.revisions.Add(contentKey(placement, rev.Digest), rev)
}

// offer caches the plan of a draft, and what was read to make it, for the driver of its run in this process.
func (e *Engine) offer(d *draft) {
	e.cachePlan(d.plan)
	if !slices.Contains(d.plan.Revisions, d.frozen.Set) {
		return // every cluster gets what overrides make of it
	}
	if rev, err := member.NewRevision(d.plan.Placement, d.frozen.set); err == nil {
		e.contents.offer(d.plan.Placement, rev)
	}
}
