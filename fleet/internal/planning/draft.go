package planning

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// Entry is the run of a draft as the queue has it.
func (d *Draft) Entry(run *step.Run) lifecycle.Entry {
	return lifecycle.Entry{UID: run.UID, Run: run.Name, Index: d.Plan.Index, Evicts: len(d.Plan.Strategy.Removal.Only) > 0}
}

// Picked are the clusters of the selection that a draft was made of, as far as the draft has them.
func (d *Draft) Picked(rr *record.Run) []string {
	if d.Partial && rr.Selection.Pages == 0 {
		return state.Updated(d.Plan)
	}
	return d.Selection.Clusters
}

// Selected is the selection of a draft as it is recorded with the run. Its clusters are stored apart where the
// plan does not list all of them: a run that catches up has only some, and others may be left out.
func (d *Draft) Selected() *lifecycle.Selection {
	if d.Selection.Digest == "" {
		return nil
	}
	rec := state.RecordOf(&d.Selection)
	if d.Whole && len(state.Updated(d.Plan)) == len(d.Selection.Clusters) {
		rec.Pages = 0
	}
	return rec
}

// Draft is a plan that is not recorded yet, with what it needs.
type Draft struct {
	Plan      *stages.Plan
	Frozen    frozen
	Selection placement.Selection
	// variants is what overrides make of the snapshot.
	Variants *variants
	Whole    bool
	// sweeps is the placement's when the draft was begun.
	Sweeps int64
	// partial reports whether only the plan is known: the run was recorded by a
	// process that did not live to see it admitted.
	Partial bool
}

// Plan plans a run of what is there now, and returns the record of the
// placement that it used.
func (pl *Planner) Plan(ctx context.Context, spec Request) (d *Draft, rec *record.Placement, err error) {
	err = pl.state.WithPlacement(ctx, spec.Placement, func(now *record.Placement) error {
		rec = now
		d, err = pl.draft(ctx, now, spec)
		return err
	})
	return d, rec, err
}

// draft plans a run from what is there now.
func (pl *Planner) draft(ctx context.Context, rec *record.Placement, spec Request) (*Draft, error) {
	if err := state.Open(rec); err != nil {
		return nil, err
	}
	if len(spec.Strategy.Removal.Only) > 0 {
		return pl.draftEviction(ctx, rec, spec)
	}
	f, err := pl.freeze(ctx, rec, spec.Index)
	if err != nil {
		return nil, err
	}
	inventory, none, err := pl.state.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	d := &Draft{Frozen: f, Whole: true, Sweeps: rec.GCGeneration}
	held, err := pl.state.BindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	r, err := pl.resolveOver(ctx, rec, inventory, held, nil)
	if err != nil {
		return nil, err
	}
	d.Selection = r.Selection
	clusters := make([]placement.Cluster, len(d.Selection.Clusters))
	for i, name := range d.Selection.Clusters {
		clusters[i] = inventory[name]
	}
	if err := checkReversal(rec, held, d.Frozen.Index, clusters); err != nil {
		return nil, err
	}
	target := d.target(rec)
	target.Remove = unpicked(held, d.Selection, inventory)
	target.Left = left(held, inventory)
	target.New = unbound(held, clusters)
	if err := d.render(&target, clusters, pl.Bans(rec.Placement.Namespace)); err != nil {
		return nil, err
	}
	if d.Plan, err = planner.Plan(spec.Strategy, target, clusters); err != nil {
		return d, err
	}
	d.warn(r.Shortfall)
	d.warn(strangeNames(none))
	d.warn(keptBy(d.Plan.Left))
	for _, u := range d.Frozen.set.Unplaced {
		d.warn(fmt.Sprintf("no cluster gets %s, and none completes: %s", u, u.Problem()))
	}
	told, _ := snapshot.OmissionsTold(d.Frozen.Omitted)
	for _, omission := range told {
		d.warn(omission)
	}
	if rec.Placement.Namespace == "" && pl.cfg.Updater == nil {
		for _, w := range missingNamespaces(d.Frozen.set.Items) {
			d.warn(w)
		}
	}
	if err := errors.Join(pl.checkGates(d.Plan), pl.checkObjects(d, inventory, rec.Placement.Namespace)); err != nil {
		return d, err
	}
	return d, pl.preflight(ctx, d, clusters)
}

// warn adds a warning to the plan, whose digest does not cover it.
func (d *Draft) warn(message string) {
	if message != "" {
		d.Plan.Warnings = append(d.Plan.Warnings, message)
	}
}

func (d *Draft) target(rec *record.Placement) stages.Target {
	return stages.Target{
		Placement: rec.Placement.Name, Index: d.Frozen.Index, Snapshot: d.Frozen.Digest,
		Selection: d.Selection.Digest, Default: d.Frozen.Set, Revision: map[string]string{},
	}
}

// freeze returns the snapshot of the index, or what the source holds now.
func (pl *Planner) freeze(ctx context.Context, rec *record.Placement, index *int) (frozen, error) {
	if index != nil {
		return pl.load(ctx, rec, *index)
	}
	return pl.captureNow(ctx, rec) // where it is the latest snapshot, by its digest, that need not be read
}

// strangeNames is a warning of entries of the inventory that cannot be clusters.
func strangeNames(names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("entries of the inventory whose names are no DNS labels (RFC 1123) are left out, %d of them: %.70q", len(names), names[:min(len(names), most)])
}

// keptBy warns of the clusters that have left.
func keptBy(names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("clusters that may have something have left the inventory, and keep it, %d of them: %q", len(names), names[:min(len(names), most)])
}

// missingNamespaces are warnings of objects whose namespace is not placed with them, one for each namespace. What a
// cluster has besides is not known to a plan. Namespace default is on every cluster.
func missingNamespaces(items []snapshot.Item) (out []string) {
	placed, objects := map[string]bool{"default": true}, map[string][]string{}
	for _, it := range items {
		if it.ID.Group == "" && it.ID.Kind == "Namespace" {
			placed[it.ID.Name] = true
		}
	}
	for _, it := range items {
		if ns := it.ID.Namespace; ns != "" && !placed[ns] {
			objects[ns] = append(objects[ns], it.ID.String())
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(objects)) {
		const most = 3
		list := objects[ns]
		some := strings.Join(list[:min(most, len(list))], ", ")
		if n := len(list) - most; n > 0 {
			some += fmt.Sprintf(" and %d more", n)
		}
		out = append(out, fmt.Sprintf("namespace %s of %s is not selected: a cluster without it cannot be updated; select Namespace %s too, unless something else creates it", ns, some, ns))
	}
	return out
}

// unbound are the clusters that have nothing and that no run was to bring anything before: a run that is admitted
// binds all clusters of its plan.
func unbound(b lifecycle.Bindings, clusters []placement.Cluster) map[string]bool {
	out := map[string]bool{}
	for i := range clusters {
		if _, bound := b[clusters[i].Name]; !bound {
			out[clusters[i].Name] = true
		}
	}
	return out
}

// unpicked are the clusters that may have something and are no longer picked,
// as far as the inventory knows them.
func unpicked(b lifecycle.Bindings, d placement.Selection, inventory map[string]placement.Cluster) map[string]string {
	out := map[string]string{}
	for name := range b {
		c, known := inventory[name]
		if _, picked := slices.BinarySearch(d.Clusters, name); known && !picked {
			out[name] = c.UID
		}
	}
	return out
}

// left are the clusters that may have something and that the inventory does not know, ascending, as many as a plan names.
func left(b lifecycle.Bindings, inventory map[string]placement.Cluster) []string {
	var out []string
	for name, h := range b {
		if _, known := inventory[name]; !known && !h.HasNothing() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out[:min(len(out), stages.MaxLeft)]
}
