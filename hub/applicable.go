package hub

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
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
	tried := map[int]bool{}
	for _, c := range picked {
		tried[c.Tried] = true
	}
	before, _ := s.applicable.Load(name)
	known, _ := before.(map[int][]frozenOverride)
	out, keep := map[int][]frozenOverride{}, map[int][]frozenOverride{}
	for _, snap := range snapshots {
		if snap.Overrides == "" || !tried[snap.Index] {
			continue
		}
		have, whole := known[snap.Index]
		if !whole {
			var err error
			have, whole, err = s.overridesIn(ctx, name, snap.Index)
			if err != nil && !errors.Is(err, backend.ErrPermanent) && !errors.Is(err, backend.ErrNotFound) {
				return nil, err
			}
		}
		out[snap.Index] = have
		if whole {
			keep[snap.Index] = have
		}
	}
	s.applicable.Store(name, keep)
	return out, nil
}

// overridesIn are the overrides in a snapshot that select something in it; whole
// tells that a version of each is shown.
func (s *service) overridesIn(ctx context.Context, name string, index int) (out []frozenOverride, whole bool, err error) {
	overrides, err := s.engine.Overrides(ctx, name, index)
	if err != nil {
		return nil, false, err
	}
	items, err := s.engine.Items(ctx, name, index)
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

// applicable adds the overrides of which a rule selects the cluster, as its labels
// are now.
func (p *placing) applicable(s *placedStatus, c *placedCluster) {
	cluster, known := p.Members[c.Name]
	if !known {
		return
	}
	for _, o := range p.Overrides[c.Tried] {
		if applies, err := o.SelectsCluster(cluster); err != nil || !applies {
			continue
		}
		if o.Namespace == "" {
			s.ClusterOverrides = append(s.ClusterOverrides, o.shown)
		} else {
			s.Overrides = append(s.Overrides, kubefleet.NamespacedName{Namespace: o.Namespace, Name: o.shown})
		}
	}
}
