package planning

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// preflight asks the updater whether a plan will work, if the updater is a backend.Preflighter.
func (pl *Planner) preflight(ctx context.Context, d *Draft, clusters []placement.Cluster) error {
	u, ok := pl.cfg.Updater.(backend.Preflighter)
	if !ok {
		return nil
	}
	intents, err := pl.intents(ctx, d, clusters)
	if err != nil || len(intents) == 0 {
		return err
	}
	_, err = guard.Call(ctx, pl.updates, "Updater", "plans of placement "+d.Plan.Placement, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, u.Preflight(ctx, intents)
	})
	if err != nil {
		return fmt.Errorf("placement %s: %w", d.Plan.Placement, err)
	}
	return nil
}

// intents returns the content that a plan brings to clusters, one intent for each revision.
func (pl *Planner) intents(ctx context.Context, d *Draft, clusters []placement.Cluster) ([]backend.Intent, error) {
	known := make(map[string]placement.Cluster, len(clusters))
	for _, c := range clusters {
		known[c.Name] = c
	}
	all := make([]backend.Intent, len(d.Plan.Revisions))
	for i := range d.Plan.Clusters {
		if c := &d.Plan.Clusters[i]; c.Revision >= 0 {
			all[c.Revision].Clusters = append(all[c.Revision].Clusters, known[c.Name])
		}
	}
	for i, digest := range d.Plan.Revisions {
		all[i].Placement, all[i].Revision = d.Plan.Placement, digest
		if len(all[i].Clusters) == 0 {
			continue
		}
		var err error
		if all[i].Content, err = pl.ContentOf(ctx, d, d.Plan, digest); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(in backend.Intent) bool { return len(in.Clusters) == 0 }), nil
}

// ContentOf returns the content set with this digest of a draft. It may not be stored yet.
func (pl *Planner) ContentOf(ctx context.Context, d *Draft, p *stages.Plan, digest string) (snapshot.Set, error) {
	if digest == d.Frozen.Set {
		return d.Frozen.set, nil
	}
	if d.Variants.has(digest) {
		return d.Variants.set(digest)
	}
	return pl.contents.LoadSet(ctx, p.Placement, digest)
}
