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

// Entry returns the queue entry for the run of a draft.
func (d *Draft) Entry(run *step.Run) lifecycle.Entry {
	return lifecycle.Entry{UID: run.UID, Run: run.Name, Index: d.Plan.Index, Evicts: len(d.Plan.Strategy.Removal.Only) > 0}
}

// Picked returns the clusters of the draft's selection, as far as the draft knows them.
func (d *Draft) Picked(rr *record.Run) []string {
	if d.Partial && rr.Selection.Pages == 0 {
		return state.Updated(d.Plan)
	}
	return d.Selection.Clusters
}

// Selected returns the selection of a draft in the form that is recorded with the run. The names of
// its clusters are stored separately if the plan does not list all of them: a catch-up run lists
// only some, and a plan may omit others.
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

// Draft is a plan that is not recorded yet, with the data for recording it.
type Draft struct {
	Plan      *stages.Plan
	Frozen    frozen
	Selection placement.Selection
	// Variants holds the results of applying overrides to the snapshot.
	Variants *variants
	Whole    bool
	// Sweeps is the placement's GCGeneration when the draft was begun.
	Sweeps int64
	// Partial reports whether only the plan is known: another process recorded the run and died
	// before it was admitted.
	Partial bool
}

// Plan plans a run of the current state, and returns the record of the placement that it used.
func (pl *Planner) Plan(ctx context.Context, spec Request) (d *Draft, rec *record.Placement, err error) {
	err = pl.state.WithPlacement(ctx, spec.Placement, func(now *record.Placement) error {
		rec = now
		d, err = pl.draft(ctx, now, spec)
		return err
	})
	return d, rec, err
}

// draft plans a run of the current state.
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
	inventory, none, err := pl.state.World.Clusters(ctx)
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
	if target.Unproven, err = pl.unproven(ctx, rec, &spec.Strategy, held, clusters); err != nil {
		return nil, err
	}
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

// freeze loads the snapshot with this index, or captures the current content of the source if index
// is nil.
func (pl *Planner) freeze(ctx context.Context, rec *record.Placement, index *int) (frozen, error) {
	if index != nil {
		return pl.load(ctx, rec, *index)
	}
	return pl.captureNow(ctx, rec) // if this equals the latest snapshot by its digest, that need not be read
}

// strangeNames returns a warning about inventory entries that cannot be clusters, or "".
func strangeNames(names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("entries of the inventory whose names are no DNS labels (RFC 1123) are left out, %d of them: %.70q", len(names), names[:min(len(names), most)])
}

// keptBy returns a warning about clusters that have left the inventory, or "".
func keptBy(names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("clusters that may have something have left the inventory, and keep it, %d of them: %q", len(names), names[:min(len(names), most)])
}

// missingNamespaces returns warnings about objects whose namespace is not selected, one for each
// namespace. A plan does not know which namespaces a cluster has already; every cluster has the
// namespace default.
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

// unbound returns the clusters without a binding: they have nothing, and no run was going to bring
// them anything, because an admitted run gives all clusters of its plan bindings.
func unbound(b lifecycle.Bindings, clusters []placement.Cluster) map[string]bool {
	out := map[string]bool{}
	for i := range clusters {
		if _, bound := b[clusters[i].Name]; !bound {
			out[clusters[i].Name] = true
		}
	}
	return out
}

// unproven returns the clusters that an earlier run began to change and did not prove. The bindings
// have the results of the runs that have ended; the other runs are read. It returns none if the
// strategy does not ask for them.
func (pl *Planner) unproven(ctx context.Context, rec *record.Placement, s *stages.Strategy, b lifecycle.Bindings, clusters []placement.Cluster) (map[string]bool, error) {
	if !slices.ContainsFunc(s.Stages, func(st stages.Stage) bool {
		return slices.ContainsFunc(st.Groups, func(g stages.Group) bool { return g.UnprovenFirst })
	}) {
		return nil, nil
	}
	changing := map[string]bool{}
	for i := range rec.Runs {
		if rec.Runs[i].Ended != "" {
			continue
		}
		run, err := pl.state.Status(ctx, rec.Runs[i].Name)
		switch {
		case state.IsNotFound(err):
			continue // it was deleted in between
		case state.IsLasting(err): // it may have changed any cluster
			for name := range b {
				changing[name] = true
			}
			continue
		case err != nil:
			return nil, err
		}
		for pos, now := range run.Run.States(run.Plan) {
			if now == stages.Running || now != stages.Completed && run.Run.MayHaveChanged(pos, now) {
				changing[run.Plan.Clusters[pos].Name] = true
			}
		}
	}
	out := map[string]bool{}
	for i := range clusters {
		if name := clusters[i].Name; b[name].Unproven || changing[name] {
			out[name] = true
		}
	}
	return out, nil
}

// unpicked returns the clusters of the inventory that may have objects and are no longer picked,
// with their UIDs.
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

// left returns the clusters that may have objects and are not in the inventory, ascending, at most
// stages.MaxLeft.
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
