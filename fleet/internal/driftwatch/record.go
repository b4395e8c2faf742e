package driftwatch

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
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/versioned"
)

// Drifted returns the recorded drift of a placement, ascending by cluster.
func (r *Reporter) Drifted(ctx context.Context, name string) ([]drift.ClusterReport, error) {
	if _, _, err := r.state.Placement(ctx, name); err != nil {
		return nil, err
	}
	var out []drift.ClusterReport
	for rec, err := range r.store.List(ctx, record.DriftKey(name, "")) {
		if err != nil {
			return nil, err
		}
		var s record.Drift
		if err := record.Decode(rec, &s); err != nil {
			return nil, err
		}
		r.checked.apply(rec.Key, &s.ClusterReport)
		out = append(out, s.ClusterReport)
	}
	return out, nil
}

// RecordDrift records the observed drift of a cluster over any earlier record. It retries on a
// conflict.
func (r *Reporter) RecordDrift(ctx context.Context, found drift.ClusterReport) error {
	for {
		old, err := r.loadDrift(ctx, found.Placement, found.Cluster)
		if err != nil {
			return err
		}
		if _, err := r.storeDrift(ctx, old, found); !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// recorded is the recorded drift of a cluster; rev is empty if there is no record.
type recorded struct {
	drift.ClusterReport
	key string
	rev backend.Revision
}

// storeDrift stores the observed drift of a cluster if it changed since old, and reports whether
// its fingerprint differs. An object that differed before keeps its FirstObserved. The error is
// backend.ErrConflict if the record was written since old was read.
func (r *Reporter) storeDrift(ctx context.Context, old recorded, found drift.ClusterReport) (changed bool, err error) {
	now := mergeDrift(&found, &old.ClusterReport)
	r.checked.update(old.key, &now)
	switch {
	case isClean(&now) && old.rev == "", !isClean(&now) && old.rev != "" && sameDrift(&now, &old.ClusterReport):
		return false, nil
	case isClean(&now):
		err = r.store.Delete(ctx, old.key, old.rev)
	default:
		_, err = r.store.Put(ctx, old.key, record.Encode(record.Drift{Format: record.Format, ClusterReport: now}), old.rev)
	}
	if state.IsNotFound(err) {
		err = fmt.Errorf("%s: %w: %v", old.key, backend.ErrConflict, err)
	}
	f := now.Fingerprint()
	return f != "" && f != old.Fingerprint(), err
}

// loadDrift returns the recorded drift of a cluster. A record that cannot be decoded counts as
// empty, and is overwritten; a record of a newer format is an error.
func (r *Reporter) loadDrift(ctx context.Context, placement, cluster string) (recorded, error) {
	old := recorded{key: record.DriftKey(placement, cluster)}
	rec, err := r.store.Get(ctx, old.key)
	if state.IsNotFound(err) {
		return old, nil
	}
	if err != nil {
		return old, err
	}
	var s record.Drift
	switch err, newer := record.Decode(rec, &s), (*versioned.FormatError)(nil); {
	case errors.As(err, &newer):
		return old, err
	case err == nil:
		old.ClusterReport = s.ClusterReport
	}
	old.rev = rec.Revision
	return old, nil
}

// mergeDrift returns the drift to store over old. If the cluster could not be read, the objects of
// old are kept.
func mergeDrift(c, old *drift.ClusterReport) drift.ClusterReport {
	out := *c
	if c.State == drift.Unknown {
		out.Objects, out.Total, out.Revision = old.Objects, old.Total, old.Revision
	}
	out.Objects = slices.Clone(out.Objects)
	keepFirstObserved(&out, old)
	BoundDrift(&out)
	return out
}

// isClean reports whether there is nothing to store.
func isClean(c *drift.ClusterReport) bool { return c.Total+len(c.Problems) == 0 }

// Bounds of a drift record: objects, problems, and bytes of objects. The record of a cluster that
// cannot be read is renewed at most every unknownRenewed, because the error text may differ each
// time.
const (
	recordedObjects  = 100
	recordedProblems = 20
	recordedBytes    = 256 << 10
	unknownRenewed   = 10 * time.Minute
)

// BoundDrift truncates c to these bounds. An object whose differences are too large is stored
// without them.
func BoundDrift(c *drift.ClusterReport) {
	if more := len(c.Problems) - recordedProblems; more > 0 {
		c.Problems = append(slices.Clone(c.Problems[:recordedProblems]), fmt.Sprintf("and %d more", more))
	}
	c.Objects = c.Objects[:min(len(c.Objects), recordedObjects)]
	size := 0
	for i := range c.Objects {
		o := &c.Objects[i]
		if n := len(record.Encode(o)); size+n <= recordedBytes {
			size += n
		} else {
			o.Differences, o.Warnings, o.Truncated = []drift.Difference{}, nil, true
		}
	}
}

// keepFirstObserved copies FirstObserved from old for the objects that differ in both.
func keepFirstObserved(c, old *drift.ClusterReport) {
	for i := range c.Objects {
		o := &c.Objects[i]
		j := slices.IndexFunc(old.Objects, func(p drift.ObjectReport) bool {
			return p.Group == o.Group && p.Kind == o.Kind && p.Namespace == o.Namespace && p.Name == o.Name && p.Reason == o.Reason
		})
		if j >= 0 {
			o.FirstObserved = old.Objects[j].FirstObserved
		}
	}
}

// sameDrift reports whether the record of old also serves for c.
func sameDrift(c, old *drift.ClusterReport) bool {
	if c.State == drift.Unknown && old.State == drift.Unknown {
		return c.Observed.Sub(old.Observed) < unknownRenewed
	}
	return c.State == old.State && c.Revision == old.Revision && c.Total == old.Total && c.Fingerprint() == old.Fingerprint() &&
		slices.Equal(c.Problems, old.Problems)
}

// ForgetDrift deletes the recorded drift of a placement, except for clusters that keep accepts. The
// error says that the records cannot be listed; a record that cannot be deleted stays.
func (r *Reporter) ForgetDrift(ctx context.Context, placement string, keep func(cluster string) bool) error {
	prefix := record.DriftKey(placement, "")
	unwanted := func(key string) bool { return !keep(strings.TrimPrefix(key, prefix)) }
	r.checked.forget(prefix, unwanted)
	var all []backend.Write
	for rec, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return err
		}
		if unwanted(rec.Key) {
			all = append(all, record.Delete(rec.Key, rec.Revision))
		}
	}
	record.Discard(ctx, r.store, all)
	return nil
}
