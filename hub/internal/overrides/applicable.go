package overrides

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Tried returns the overrides in the snapshots that were last tried on the picked clusters, and in
// the snapshots with the indexes in more, by index. A snapshot that cannot be read has no overrides
// here. An override has no name if none of its versions is shown.
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

// AddTo adds to the facts of a run the overrides in the snapshots of its plan. The facts must have
// the snapshots that are kept.
func (r *Reconciler) AddTo(ctx context.Context, f *status.RunFacts) (err error) {
	if f.Overrides, err = r.overridesBrought(ctx, f.Plan, f.Snapshots); err == nil && len(f.Overrides) > 0 {
		f.Members, err = r.Clusters.All(ctx)
	}
	return err
}

// overridesBrought returns the overrides in the snapshots of a plan, by index. It reads nothing of
// a kept snapshot without overrides.
func (r *Reconciler) overridesBrought(ctx context.Context, p *stages.Plan, kept []snapshot.Snapshot) (map[int][]status.FrozenOverride, error) {
	indexes := []int{p.Index}
	if p.Rollback != nil {
		indexes = p.Rollback.Indexes
	}
	out := map[int][]status.FrozenOverride{}
	for _, index := range indexes {
		none := func(s snapshot.Snapshot) bool { return s.Index == index && s.Overrides == "" }
		if _, known := out[index]; known || index < 0 || slices.ContainsFunc(kept, none) {
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

// overridesAt returns the overrides in a snapshot, or none if the snapshot is gone or cannot be
// read. It caches the result once a version of each override is shown.
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

// keepOverrides forgets the overrides of all snapshots of a placement except the given ones.
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

// Forget drops the overrides in the snapshots of a deleted placement from the cache.
func (r *Reconciler) Forget(name string) { r.applicable.Delete(name) }

// overridesIn returns the overrides in a snapshot that select an object of it. whole reports
// whether a version of each is shown.
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
			continue // an earlier version of the hub froze it
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

// shownVersion returns the name of the object that shows an override with this content, or "" if
// there is none.
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
