package overrides

import (
	"context"
	"errors"
	"maps"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Tried are the overrides in the snapshots that clusters were last tried
// with, and in those of more indexes, by index. Of a snapshot that cannot be read there are none, and an override
// of which no version is shown is without a name.
func (r *Reconciler) Tried(ctx context.Context, name string, snapshots []snapshot.Snapshot, picked []status.PlacedCluster, more ...int) (map[int][]status.FrozenOverride, error) {
	r.keepOverrides(name, snapshots)
	tried := map[int]bool{}
	for _, c := range picked {
		tried[c.Tried] = true
	}
	for _, index := range more {
		tried[index] = true
	}
	out := map[int][]status.FrozenOverride{}
	for _, snap := range snapshots {
		if snap.Overrides == "" || !tried[snap.Index] {
			continue
		}
		have, err := r.overridesAt(ctx, name, snap.Index)
		if err != nil {
			return nil, err
		}
		out[snap.Index] = have
	}
	return out, nil
}

// AddTo adds the overrides that the plan's content was made with.
func (r *Reconciler) AddTo(ctx context.Context, f *status.RunFacts) (err error) {
	if f.Overrides, err = r.overridesBrought(ctx, f.Plan); err == nil && len(f.Overrides) > 0 {
		f.Members, err = r.Clusters.All(ctx)
	}
	return err
}

// overridesBrought are the overrides in the snapshots that a plan brings, by index.
func (r *Reconciler) overridesBrought(ctx context.Context, p *stages.Plan) (map[int][]status.FrozenOverride, error) {
	indexes := []int{p.Index}
	if p.Rollback != nil {
		indexes = p.Rollback.Indexes
	}
	out := map[int][]status.FrozenOverride{}
	for _, index := range indexes {
		if _, known := out[index]; known || index < 0 {
			continue
		}
		have, err := r.overridesAt(ctx, p.Placement, index)
		if err != nil {
			return nil, err
		}
		if len(have) > 0 {
			out[index] = have
		}
	}
	return out, nil
}

// overridesAt are the overrides in a snapshot. They are read once, if all that is to be
// known of them is; of a snapshot that is gone or cannot be read there are none.
func (r *Reconciler) overridesAt(ctx context.Context, name string, index int) ([]status.FrozenOverride, error) {
	before, _ := r.applicable.Load(name)
	known, _ := before.(map[int][]status.FrozenOverride)
	if have, ok := known[index]; ok {
		return have, nil
	}
	have, whole, err := r.overridesIn(ctx, name, index)
	switch {
	case errors.Is(err, backend.ErrPermanent), errors.Is(err, backend.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if whole {
		more := map[int][]status.FrozenOverride{index: have}
		maps.Copy(more, known)
		r.applicable.Store(name, more)
	}
	return have, nil
}

// keepOverrides forgets the overrides in snapshots of a placement that are no more.
func (r *Reconciler) keepOverrides(name string, snapshots []snapshot.Snapshot) {
	before, _ := r.applicable.Load(name)
	known, _ := before.(map[int][]status.FrozenOverride)
	keep := map[int][]status.FrozenOverride{}
	for _, snap := range snapshots {
		if have, ok := known[snap.Index]; ok {
			keep[snap.Index] = have
		}
	}
	r.applicable.Store(name, keep)
}

// Forget forgets the overrides in snapshots of a placement that is gone.
func (r *Reconciler) Forget(name string) { r.applicable.Delete(name) }

// overridesIn are the overrides in a snapshot that select something in it; whole
// says that a version of each is shown.
func (r *Reconciler) overridesIn(ctx context.Context, name string, index int) (out []status.FrozenOverride, whole bool, err error) {
	view, err := r.Engine.Placement(name).View(ctx)
	if err != nil {
		return nil, false, err
	}
	overrides, err := view.Overrides(ctx, index)
	if err != nil {
		return nil, false, err
	}
	items, err := view.Items(ctx, index)
	if err != nil {
		return nil, false, err
	}
	whole = true
	for _, o := range overrides {
		if !selectsAny(o, items) {
			continue // an earlier version froze it
		}
		shown, err := r.shownVersion(ctx, o)
		if err != nil {
			return nil, false, err
		}
		if shown == "" {
			whole = false
		}
		out = append(out, status.FrozenOverride{Override: o, Snapshot: shown})
	}
	return out, whole, nil
}

func selectsAny(o placement.Override, items []snapshot.Item) bool {
	for _, item := range items {
		if o.SelectsObject(item.Group, item.Version, item.Kind, item.Namespace, item.Name) {
			return true
		}
	}
	return false
}

// shownVersion is the name of the object that shows an override with this content,
// "" where there is none.
func (r *Reconciler) shownVersion(ctx context.Context, o placement.Override) (string, error) {
	content, _, err := placement.OverridesDigest([]placement.Override{o})
	if err != nil {
		return "", err
	}
	rec, _, err := r.overrideRecordOf(ctx, api.Key{Namespace: o.Namespace, Name: o.Name})
	if err != nil {
		return "", err
	}
	shown := ""
	for _, v := range rec.Versions {
		if v.Content == content {
			shown = status.OverrideSnapshotName(o.Name, v.Index)
		}
	}
	return shown, nil
}
