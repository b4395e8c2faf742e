package fleet

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// draft is a plan that is not recorded yet, with what it needs.
type draft struct {
	plan     *stages.Plan
	frozen   frozen
	decision placement.Decision
	// variants is what overrides make of the snapshot.
	variants *variants
	whole    bool
	// sweeps is the placement's when the draft was begun.
	sweeps int64
	// partial reports whether only the plan is known: the run was recorded by a
	// process that did not live to see it admitted.
	partial bool
}

// Preview returns the plan that CreateRun would record for spec, with the
// digest that it would have. Nothing is written, not even a snapshot, and the
// spec needs no name yet. The plan stays what it is; the next one may differ
// when something has changed: name its digest in RunSpec.Plan to be sure.
func (e *Engine) Preview(ctx context.Context, spec RunSpec) (*stages.Plan, error) {
	if err := about("preview of a run", spec.problems()); err != nil {
		return nil, err
	}
	d, _, err := e.draftOf(ctx, spec.request())
	if err != nil {
		return nil, err
	}
	return d.plan, nil
}

// draftOf plans a run of what is there now, and returns the record of the
// placement that it used.
func (e *Engine) draftOf(ctx context.Context, spec runRequest) (d *draft, rec *record.Placement, err error) {
	err = e.withPlacement(ctx, spec.Placement, func(now *record.Placement) error {
		rec = now
		d, err = e.draft(ctx, now, spec)
		return err
	})
	return d, rec, err
}

// draft plans a run from what is there now.
func (e *Engine) draft(ctx context.Context, rec *record.Placement, spec runRequest) (*draft, error) {
	if err := open(rec); err != nil {
		return nil, err
	}
	f, err := e.freeze(ctx, rec, spec.Index)
	if err != nil {
		return nil, err
	}
	inventory, none, err := e.clusters(ctx)
	if err != nil {
		return nil, err
	}
	d := &draft{frozen: f, whole: true, sweeps: rec.GCGeneration}
	held, err := e.bindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	r, err := e.resolveOver(ctx, rec, inventory, held)
	if err != nil {
		return nil, err
	}
	d.decision = r.Decision
	clusters := make([]placement.Cluster, len(d.decision.Clusters))
	for i, name := range d.decision.Clusters {
		clusters[i] = inventory[name]
	}
	if err := checkReversal(rec, held, d.frozen.Index, clusters); err != nil {
		return nil, err
	}
	target := d.target(rec)
	target.Remove = unpicked(held, d.decision, inventory)
	if err := d.render(&target, clusters, e.forbidden(rec.Placement.Namespace)); err != nil {
		return nil, err
	}
	if d.plan, err = stages.NewPlan(spec.Strategy, target, clusters); err != nil {
		return d, err
	}
	d.warn(r.Shortfall)
	d.warn(strangeNames(none))
	if err := e.checkDriftGates(d.plan); err != nil {
		return d, err
	}
	return d, e.preflight(ctx, d, clusters)
}

// warn adds a warning to the plan, whose digest does not cover it.
func (d *draft) warn(message string) {
	if message != "" {
		d.plan.Warnings = append(d.plan.Warnings, message)
	}
}

func (d *draft) target(rec *record.Placement) stages.Target {
	return stages.Target{
		Placement: rec.Placement.Name, Index: d.frozen.Index, Snapshot: d.frozen.Digest,
		Decision: d.decision.Digest, Default: d.frozen.Set, Revision: map[string]string{},
	}
}

// freeze returns the snapshot of the index, or what the source holds now.
func (e *Engine) freeze(ctx context.Context, rec *record.Placement, index *int) (frozen, error) {
	if index != nil {
		return e.load(ctx, rec, *index)
	}
	f, err := e.captureNow(ctx, rec)
	if err != nil || f.fresh {
		return f, err
	}
	return e.load(ctx, rec, f.Index)
}

// inventory returns the clusters by name. It is complete or an error.
func (e *Engine) inventory(ctx context.Context) (map[string]placement.Cluster, error) {
	clusters, _, err := e.clusters(ctx)
	return clusters, err
}

// watchInventory yields whenever the inventory may have changed.
func (e *Engine) watchInventory(ctx context.Context) iter.Seq2[struct{}, error] {
	return guard.Stream(ctx, e.inventories, "inventory", "watch", func(ctx context.Context) iter.Seq2[struct{}, error] {
		return backend.WatchInventory(ctx, e.cfg.Inventory, e.cfg.Poll)
	})
}

// clusters returns the clusters by name, within the limits of what an inventory may say
// of one, and the names of entries that cannot be clusters.
func (e *Engine) clusters(ctx context.Context) (clusters map[string]placement.Cluster, none []string, err error) {
	list, err := guard.Call(ctx, e.inventories, "inventory", "clusters", func(ctx context.Context) ([]placement.Cluster, error) {
		var out []placement.Cluster
		for c, err := range e.cfg.Inventory.Clusters(ctx) {
			if err != nil {
				return nil, err
			}
			out = append(out, c.Bounded())
		}
		return out, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("inventory: %w", err)
	}
	list = slices.DeleteFunc(list, func(c placement.Cluster) bool {
		valid := placement.ValidName(c.Name)
		if !valid {
			none = append(none, c.Name[:min(len(c.Name), longestName)])
		}
		return !valid
	})
	if err := placement.ValidateClusters(list); err != nil {
		return nil, nil, err
	}
	clusters = make(map[string]placement.Cluster, len(list))
	for _, c := range list {
		clusters[c.Name] = c
	}
	return clusters, none, nil
}

// longestName is how much of a name that is none a warning repeats.
const longestName = 64

// strangeNames is a warning of entries of the inventory that cannot be clusters.
func strangeNames(names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("entries of the inventory whose names are no DNS labels (RFC 1123) are left out, %d of them: %.70q", len(names), names[:min(len(names), most)])
}

// unpicked are the clusters that may have something and are no longer picked,
// as far as the inventory knows them.
func unpicked(b lifecycle.Bindings, d placement.Decision, inventory map[string]placement.Cluster) map[string]string {
	out := map[string]string{}
	for name := range b {
		c, known := inventory[name]
		if _, picked := slices.BinarySearch(d.Clusters, name); known && !picked {
			out[name] = c.UID
		}
	}
	return out
}
