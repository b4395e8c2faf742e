package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// preflight asks the updater, where it can be asked, whether a plan will work.
func (e *Engine) preflight(ctx context.Context, d *draft, clusters []placement.Cluster) error {
	u, ok := e.cfg.Updater.(Preflighter)
	if !ok {
		return nil
	}
	intents, err := e.intents(ctx, d, clusters)
	if err != nil || len(intents) == 0 {
		return err
	}
	_, err = guard.Call(ctx, e.updates, "Updater", "plans of placement "+d.plan.Placement, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, u.Preflight(ctx, intents)
	})
	if err != nil {
		return fmt.Errorf("placement %s: %w", d.plan.Placement, err)
	}
	return nil
}

// intents are what a plan brings to clusters, by the revisions of the plan.
func (e *Engine) intents(ctx context.Context, d *draft, clusters []placement.Cluster) ([]Intent, error) {
	known := make(map[string]placement.Cluster, len(clusters))
	for _, c := range clusters {
		known[c.Name] = c
	}
	all := make([]Intent, len(d.plan.Revisions))
	for i := range d.plan.Clusters {
		if c := &d.plan.Clusters[i]; c.Revision >= 0 {
			all[c.Revision].Clusters = append(all[c.Revision].Clusters, known[c.Name])
		}
	}
	for i, digest := range d.plan.Revisions {
		all[i].Placement, all[i].Revision = d.plan.Placement, digest
		if len(all[i].Clusters) == 0 {
			continue
		}
		var err error
		if all[i].Content, err = e.contentOf(ctx, d, d.plan, digest); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(in Intent) bool { return len(in.Clusters) == 0 }), nil
}

// contentOf returns a set that a draft brings, which may not be stored yet.
func (e *Engine) contentOf(ctx context.Context, d *draft, p *stages.Plan, digest string) (snapshot.Set, error) {
	if digest == d.frozen.Set {
		return d.frozen.set, nil
	}
	if d.variants.has(digest) {
		return d.variants.set(digest)
	}
	return e.contents.loadSet(ctx, p.Placement, digest)
}
