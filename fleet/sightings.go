package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// sightingRecord is what was last seen of a cluster that differs. A cluster that
// does not differ has none.
type sightingRecord struct {
	Format int `json:"format"`
	ClusterDrift
}

func sightingKey(placement, cluster string) string { return "drift/" + placement + "/" + cluster }

// Drifted returns what was last seen of the clusters of a placement that differ
// or could not be compared, by runs and by the watch of [Engine.Run], ascending
// by cluster. It is the cheap answer to what [Engine.Drift] finds out anew.
//
// Observed of a cluster is when the difference was last another one; an engine
// that watches the cluster knows when it was last looked at, and says that.
func (e *Engine) Drifted(ctx context.Context, name string) ([]ClusterDrift, error) {
	if _, _, err := e.placementAt(ctx, name); err != nil {
		return nil, err
	}
	var out []ClusterDrift
	for rec, err := range e.store.List(ctx, sightingKey(name, "")) {
		if err != nil {
			return nil, err
		}
		var s sightingRecord
		if err := decodeRecord(rec, &s); err != nil {
			return nil, err
		}
		e.glances.refresh(rec.Key, &s.ClusterDrift)
		out = append(out, s.ClusterDrift)
	}
	return out, nil
}

// saw records what was seen of a cluster. It writes only where that differs from
// what was seen before: an object that differs as before keeps the time since
// when it does, and one that did not begins anew.
func (e *Engine) saw(ctx context.Context, seen ClusterDrift) error {
	key := sightingKey(seen.Placement, seen.Cluster)
	for {
		rec, err := e.store.Get(ctx, key)
		if err != nil && !isNotFound(err) {
			return err
		}
		var old sightingRecord
		if err == nil && decodeRecord(rec, &old) != nil {
			old = sightingRecord{} // what cannot be read is written anew
		}
		e.glances.note(key, seen.Observed)
		if seen.State == Unknown {
			seen.Objects, seen.Total, seen.Revision = old.Objects, old.Total, old.Revision
		}
		seen.since(&old.ClusterDrift)
		seen.cut()
		switch {
		case len(seen.Objects)+len(seen.Problems) == 0 && rec.Revision == "":
			return nil
		case len(seen.Objects)+len(seen.Problems) == 0:
			err = e.store.Delete(ctx, key, rec.Revision)
		case seen.same(&old.ClusterDrift):
			return nil
		default:
			_, err = e.store.Put(ctx, key, encodeRecord(sightingRecord{recordFormat, seen}), rec.Revision)
		}
		if !errors.Is(err, backend.ErrConflict) && !isNotFound(err) {
			return err
		}
	}
}

// What is kept of the objects of a cluster that differ.
const (
	sightedObjects = 100
	sightedBytes   = 256 << 10
)

// cut leaves out objects beyond what is kept.
func (c *ClusterDrift) cut() {
	c.Objects = c.Objects[:min(len(c.Objects), sightedObjects)]
	for size, i := 0, 0; i < len(c.Objects); i++ {
		if size += len(encodeRecord(c.Objects[i])); size > sightedBytes {
			c.Objects = c.Objects[:i]
		}
	}
}

// since takes over from what was seen before since when objects differ.
func (c *ClusterDrift) since(old *ClusterDrift) {
	for i := range c.Objects {
		o := &c.Objects[i]
		j := slices.IndexFunc(old.Objects, func(p ObjectDrift) bool {
			return p.Group == o.Group && p.Kind == o.Kind && p.Namespace == o.Namespace && p.Name == o.Name && p.Reason == o.Reason
		})
		if j >= 0 {
			o.FirstObserved = old.Objects[j].FirstObserved
		}
	}
}

// same tells whether the same was seen before.
func (c *ClusterDrift) same(old *ClusterDrift) bool {
	return c.State == old.State && c.Revision == old.Revision && c.Total == old.Total && c.Fingerprint() == old.Fingerprint() &&
		slices.Equal(c.Problems, old.Problems)
}

// forgetSightings deletes what was seen of the clusters of a placement that keep
// does not want.
func (e *Engine) forgetSightings(ctx context.Context, placement string, keep func(cluster string) bool) {
	prefix := sightingKey(placement, "")
	e.discardIf(ctx, prefix, func(key string) bool { return !keep(strings.TrimPrefix(key, prefix)) })
}

// secretKey makes equal secret values tellable within a placement, and nowhere
// else: its UID is random and never leaves the store.
func (rec *placementRecord) secretKey() []byte {
	return []byte(snapshot.Digest([]byte("drift " + rec.UID)))
}
