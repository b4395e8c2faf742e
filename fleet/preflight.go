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

// Preflighter is an [Updater] that can reject a plan before it is recorded.
type Preflighter interface {
	Updater
	// Preflight is called with what a plan would bring to clusters, before the plan is
	// recorded: by Preview, CreateRun, CatchUp, PreviewRollback and Rollback, and where
	// a run is taken back without being asked for. Its error is theirs, and nothing has
	// been started or stored then; it should name everything that is wrong. It changes
	// nothing, may be called more than once for a plan, and takes no longer than a
	// call may, whatever the number of clusters. Clusters that a plan cleans are not
	// among them.
	Preflight(ctx context.Context, intents []Intent) error
}

// Intent is what a plan would bring to some clusters.
type Intent struct {
	Placement string
	// Revision is the digest of Content, what the clusters are to have.
	Revision string
	Content  snapshot.Set
	// Clusters are in the order of the plan, as the inventory has them.
	Clusters []placement.Cluster
}

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
