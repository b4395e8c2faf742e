package hub

import (
	"context"
	"errors"
	"maps"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// frozenOverride is an override that a snapshot has frozen and that selects one of
// its objects.
type frozenOverride struct {
	placement.Override
	// shown is the name of the object that shows the override as it was then.
	shown string
}

// overridesTried are the overrides in the snapshots that clusters were last tried
// with, by index. Of a snapshot that cannot be read there are none, and an override
// of which no version is shown is left out.
func (s *service) overridesTried(ctx context.Context, name string, snapshots []snapshot.Snapshot, picked []placedCluster) (map[int][]frozenOverride, error) {
	s.keepOverrides(name, snapshots)
	tried := map[int]bool{}
	for _, c := range picked {
		tried[c.Tried] = true
	}
	out := map[int][]frozenOverride{}
	for _, snap := range snapshots {
		if snap.Overrides == "" || !tried[snap.Index] {
			continue
		}
		have, err := s.overridesAt(ctx, name, snap.Index)
		if err != nil {
			return nil, err
		}
		out[snap.Index] = have
	}
	return out, nil
}

// addOverrides adds the overrides that the plan's content was made with.
func (s *service) addOverrides(ctx context.Context, f *runFacts) (err error) {
	if f.Overrides, err = s.overridesBrought(ctx, f.Plan); err == nil && len(f.Overrides) > 0 {
		f.Members, err = s.roster.listed(ctx, s.cfg.Inventory)
	}
	return err
}

// overridesBrought are the overrides in the snapshots that a plan brings, by index.
func (s *service) overridesBrought(ctx context.Context, p *stages.Plan) (map[int][]frozenOverride, error) {
	indexes := []int{p.Index}
	if p.Rollback != nil {
		indexes = p.Rollback.Indexes
	}
	out := map[int][]frozenOverride{}
	for _, index := range indexes {
		if _, known := out[index]; known || index < 0 {
			continue
		}
		have, err := s.overridesAt(ctx, p.Placement, index)
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
func (s *service) overridesAt(ctx context.Context, name string, index int) ([]frozenOverride, error) {
	before, _ := s.applicable.Load(name)
	known, _ := before.(map[int][]frozenOverride)
	if have, ok := known[index]; ok {
		return have, nil
	}
	have, whole, err := s.overridesIn(ctx, name, index)
	switch {
	case errors.Is(err, backend.ErrPermanent), errors.Is(err, backend.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if whole {
		more := map[int][]frozenOverride{index: have}
		maps.Copy(more, known)
		s.applicable.Store(name, more)
	}
	return have, nil
}

// keepOverrides forgets the overrides in snapshots of a placement that are no more.
func (s *service) keepOverrides(name string, snapshots []snapshot.Snapshot) {
	before, _ := s.applicable.Load(name)
	known, _ := before.(map[int][]frozenOverride)
	keep := map[int][]frozenOverride{}
	for _, snap := range snapshots {
		if have, ok := known[snap.Index]; ok {
			keep[snap.Index] = have
		}
	}
	s.applicable.Store(name, keep)
}

// overridesIn are the overrides in a snapshot that select something in it; whole
// says that a version of each is shown.
func (s *service) overridesIn(ctx context.Context, name string, index int) (out []frozenOverride, whole bool, err error) {
	view, err := s.engine.View(ctx, name)
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
			continue
		}
		shown, err := s.shownVersion(ctx, o)
		if err != nil {
			return nil, false, err
		}
		if shown == "" {
			whole = false
			continue
		}
		out = append(out, frozenOverride{o, shown})
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
func (s *service) shownVersion(ctx context.Context, o placement.Override) (string, error) {
	content, _, err := placement.OverridesDigest([]placement.Override{o})
	if err != nil {
		return "", err
	}
	rec, _, err := s.overrideRecordOf(ctx, key{Namespace: o.Namespace, Name: o.Name})
	if err != nil {
		return "", err
	}
	shown := ""
	for _, v := range rec.Versions {
		if v.Content == content {
			shown = overrideSnapshotName(o.Name, v.Index)
		}
	}
	return shown, nil
}

// shownOverrides is how many bytes of names of overrides a status has; those of the
// clusters that are listed first.
const shownOverrides = 128 << 10

// overridesOn names the overrides of which a rule selects a cluster, as its labels
// are now, as far as the room for names reaches.
func overridesOn(cluster placement.Cluster, all []frozenOverride, room *int) (clusterwide []string, namespaced []kubefleet.NamespacedName) {
	for _, o := range all {
		if applies, err := o.SelectsCluster(cluster); err != nil || !applies {
			continue
		}
		if *room -= len(o.Namespace) + len(o.shown); *room < 0 {
			return clusterwide, namespaced
		}
		if o.Namespace == "" {
			clusterwide = append(clusterwide, o.shown)
		} else {
			namespaced = append(namespaced, kubefleet.NamespacedName{Namespace: o.Namespace, Name: o.shown})
		}
	}
	return clusterwide, namespaced
}

// applicable adds the overrides that apply to a cluster.
func (p *placing) applicable(s *placedStatus, c *placedCluster) {
	if cluster, known := p.Members[c.Name]; known {
		s.ClusterOverrides, s.Overrides = overridesOn(cluster, p.Overrides[c.Tried], &p.names)
	}
}

// applicable adds the overrides that what the plan brings to a cluster was made with.
func (p *projection) applicable(c *clusterStatus, pos int) {
	if cluster, known := p.Members[c.Name]; known {
		c.ClusterOverrides, c.Overrides = overridesOn(cluster, p.Overrides[p.Plan.IndexAt(pos)], &p.names)
	}
}
