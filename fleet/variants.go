package fleet

import (
	"context"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
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

// offer gives a plan, and what was read to make it, to those who carry it out in this
// process.
func (d *draft) offer(plans *lru.Cache[string, *stages.Plan], c *contents) {
	plans.Add(d.plan.Digest, d.plan)
	if !slices.Contains(d.plan.Revisions, d.frozen.Set) {
		return // every cluster gets what overrides make of it
	}
	if rev, err := member.NewRevision(d.plan.Placement, d.frozen.set); err == nil {
		c.offer(d.plan.Placement, rev)
	}
}
