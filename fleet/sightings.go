package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// Drifted returns what was last seen of the clusters of a placement that differ
// or could not be compared, by runs and by the watch of [Engine.Run], ascending
// by cluster. It is the cheap answer to what [Engine.Drift] finds out again.
//
// Observed of a cluster is when the difference was last another one; an engine
// that watches the cluster knows when it was last looked at, and says that.
func (e *Engine) Drifted(ctx context.Context, name string) ([]ClusterDrift, error) {
	if _, _, err := e.placementAt(ctx, name); err != nil {
		return nil, err
	}
	var out []ClusterDrift
	for rec, err := range e.store.List(ctx, record.DriftKey(name, "")) {
		if err != nil {
			return nil, err
		}
		var s record.Drift
		if err := record.Decode(rec, &s); err != nil {
			return nil, err
		}
		e.glances.refresh(rec.Key, &s.ClusterDrift)
		out = append(out, s.ClusterDrift)
	}
	return out, nil
}

// saw records what was seen of a cluster, whatever was before.
func (e *Engine) saw(ctx context.Context, seen ClusterDrift) error {
	for {
		old, err := e.sightingOf(ctx, seen.Placement, seen.Cluster)
		if err != nil {
			return err
		}
		if _, err := e.sight(ctx, old, seen); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// sighting is what was seen of a cluster before; without a revision that is
// nothing.
type sighting struct {
	ClusterDrift
	key string
	rev backend.Revision
}

// sight records what was seen of a cluster after old, and reports whether it differs
// in another way than that. It writes only where something else was seen: an
// object that differs as before keeps the time since when it does, and one that
// did not begins again. It is backend.ErrConflict where somebody has recorded
// something since old was read.
func (e *Engine) sight(ctx context.Context, old sighting, seen ClusterDrift) (fresh bool, err error) {
	now := mergeDrift(&seen, &old.ClusterDrift)
	e.glances.note(old.key, &now)
	switch {
	case isClean(&now) && old.rev == "", !isClean(&now) && old.rev != "" && sameDrift(&now, &old.ClusterDrift):
		return false, nil
	case isClean(&now):
		err = e.store.Delete(ctx, old.key, old.rev)
	default:
		_, err = e.store.Put(ctx, old.key, record.Encode(record.Drift{Format: record.Format, ClusterDrift: now}), old.rev)
	}
	if isNotFound(err) {
		err = fmt.Errorf("%s: %w: %v", old.key, backend.ErrConflict, err)
	}
	f := now.Fingerprint()
	return f != "" && f != old.Fingerprint(), err
}

// sightingOf returns what was seen of a cluster before. What cannot be read is
// written again, as if it were nothing, unless a newer engine wrote it.
func (e *Engine) sightingOf(ctx context.Context, placement, cluster string) (sighting, error) {
	old := sighting{key: record.DriftKey(placement, cluster)}
	rec, err := e.store.Get(ctx, old.key)
	if isNotFound(err) {
		return old, nil
	}
	if err != nil {
		return old, err
	}
	var s record.Drift
	switch err, newer := record.Decode(rec, &s), (*stages.FormatError)(nil); {
	case errors.As(err, &newer):
		return old, err
	case err == nil:
		old.ClusterDrift = s.ClusterDrift
	}
	old.rev = rec.Revision
	return old, nil
}

// mergeDrift returns the drift to store of a cluster of which old is stored: where the
// cluster could not be read, what is known of its objects stays.
func mergeDrift(c, old *ClusterDrift) ClusterDrift {
	out := *c
	if c.State == Unknown {
		out.Objects, out.Total, out.Revision = old.Objects, old.Total, old.Revision
	}
	out.Objects = slices.Clone(out.Objects)
	keepFirstObserved(&out, old)
	boundDrift(&out)
	return out
}

// isClean reports whether there is nothing to store.
func isClean(c *ClusterDrift) bool { return c.Total+len(c.Problems) == 0 }

// What is kept of the objects of a cluster that differ, and of its problems. Why
// a cluster cannot be looked at may be another text each time, and is renewed at
// most every so often.
const (
	sightedObjects  = 100
	sightedProblems = 20
	sightedBytes    = 256 << 10
	unknownRenewed  = 10 * time.Minute
)

// boundDrift leaves out what is beyond that. Of an object whose differences are too
// large, it keeps that it differs.
func boundDrift(c *ClusterDrift) {
	if more := len(c.Problems) - sightedProblems; more > 0 {
		c.Problems = append(slices.Clone(c.Problems[:sightedProblems]), fmt.Sprintf("and %d more", more))
	}
	c.Objects = c.Objects[:min(len(c.Objects), sightedObjects)]
	size := 0
	for i := range c.Objects {
		o := &c.Objects[i]
		if n := len(record.Encode(o)); size+n <= sightedBytes {
			size += n
		} else {
			o.Differences, o.Warnings, o.Truncated = []drift.Difference{}, nil, true
		}
	}
}

// keepFirstObserved takes from old since when objects differ.
func keepFirstObserved(c, old *ClusterDrift) {
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

// sameDrift reports whether c needs no other record than old.
func sameDrift(c, old *ClusterDrift) bool {
	if c.State == Unknown && old.State == Unknown {
		return c.Observed.Sub(old.Observed) < unknownRenewed
	}
	return c.State == old.State && c.Revision == old.Revision && c.Total == old.Total && c.Fingerprint() == old.Fingerprint() &&
		slices.Equal(c.Problems, old.Problems)
}

// forgetSightings deletes what was seen of the clusters of a placement that keep
// does not want.
func (e *Engine) forgetSightings(ctx context.Context, placement string, keep func(cluster string) bool) {
	prefix := record.DriftKey(placement, "")
	unwanted := func(key string) bool { return !keep(strings.TrimPrefix(key, prefix)) }
	e.glances.forget(prefix, unwanted)
	record.DiscardIf(ctx, e.store, prefix, unwanted)
}
