package fleet

import (
	"context"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// PlacementView is a placement as its record was at one moment: the record is read once, and all answers are
// consistent with it. What the record refers to is read by the method that needs it; where that is not found
// and the record was written since, the placement is read again, and the answer is that of the newer record.
// Its methods may be called concurrently, and the caller owns what they return.
type PlacementView struct {
	state    *state.State
	contents *content.Store
	rec      *record.Placement // shared
	rev      backend.Revision
}

// View reads the record of a placement. The error matches backend.ErrNotFound where there is none of that
// name.
func (e *Engine) View(ctx context.Context, placement string) (*PlacementView, error) {
	rec, rev, err := e.state.SeenPlacement(ctx, placement)
	if err != nil {
		return nil, err
	}
	return &PlacementView{e.state, e.contents, rec, rev}, nil
}

// read calls do with the record of the view. Where do does not find something and the record was written
// since, do is called again with the record as it is now.
func (v *PlacementView) read(ctx context.Context, do func(*record.Placement) error) error {
	name := v.rec.Placement.Name
	err := do(v.rec)
	if v.state.IsStale(ctx, name, v.rev, err) {
		return v.state.WithPlacement(ctx, name, do)
	}
	return err
}

// Snapshots returns the snapshots that are kept, ascending by index; the last is
// the latest.
func (v *PlacementView) Snapshots() []snapshot.Snapshot { return slices.Clone(v.rec.Snapshots) }

// Version identifies the runs of the placement, which of them have ended, and what its clusters have. RunSpec.Version
// makes a run conditional on it: see [Engine.CreateRun].
func (v *PlacementView) Version() string { return v.rec.Version() }

// Unended returns the names of the runs whose end is not in the record, in the order of their creation. What they have
// brought to clusters so far, or removed from there, is in their own records.
func (v *PlacementView) Unended() (names []string) {
	for i := range v.rec.Runs {
		if v.rec.Runs[i].Ended == "" {
			names = append(names, v.rec.Runs[i].Name)
		}
	}
	return names
}

// Irreversible returns the indexes of the snapshots that [Engine.SetIrreversible]
// has marked, ascending.
func (v *PlacementView) Irreversible() []int { return slices.Clone(v.rec.Irreversible) }

// Tag returns what a digest of content of the placement is shown as where the content is
// not, as that of Secrets is not: 64 hexadecimal digits, the same for the same digest as
// long as the placement is there. With the digest itself a guess of the rest could be
// tested.
func (v *PlacementView) Tag(digest string) string { return keyed.Tag(v.rec.Key, "shown", digest) }

// Items returns what the snapshot of an index consists of, before overrides, in the
// order of application, each with the envelope that it came in. What cannot be applied
// for want of a name is not among them: see Snapshot.Unplaced of [PlacementView.Snapshots].
// [snapshot.Compare] says what two snapshots differ in. The error matches
// backend.ErrNotFound where the snapshot is not kept, and names those that are.
func (v *PlacementView) Items(ctx context.Context, index int) (items []snapshot.Item, err error) {
	err = v.read(ctx, func(rec *record.Placement) error {
		s, err := state.SnapshotAt(rec, index)
		if err != nil {
			return err
		}
		if items, _, err = v.contents.Indexed(ctx, rec.Placement.Name, s.Set); err != nil {
			return err
		}
		items, err = v.contents.FromEnvelopes(ctx, &s, items)
		return err
	})
	return items, err
}

// Content returns what the snapshot of an index consists of with the objects
// themselves, before overrides, verified by their digests. The error is that of
// [PlacementView.Items].
func (v *PlacementView) Content(ctx context.Context, index int) (set snapshot.Set, err error) {
	err = v.read(ctx, func(rec *record.Placement) error {
		s, err := state.SnapshotAt(rec, index)
		if err != nil {
			return err
		}
		if set, err = v.contents.LoadSet(ctx, rec.Placement.Name, s.Set); err != nil {
			return err
		}
		set.Items, err = v.contents.FromEnvelopes(ctx, &s, set.Items)
		return err
	})
	return set, err
}

// Overrides returns the overrides as they were when the snapshot of that index was
// taken, in the order in which they are applied; none where it has none. The error
// is that of [PlacementView.Items].
func (v *PlacementView) Overrides(ctx context.Context, index int) (overrides []placement.Override, err error) {
	err = v.read(ctx, func(rec *record.Placement) (err error) {
		overrides, err = v.state.OverridesOf(ctx, rec, index)
		return err
	})
	return overrides, err
}

// Selection returns the last selection about the placement that [Engine.Resolve] or
// a run recorded. The error matches backend.ErrNotFound where there is none yet.
func (v *PlacementView) Selection(ctx context.Context) (d placement.Selection, err error) {
	err = v.read(ctx, func(rec *record.Placement) (err error) {
		name, have := rec.Placement.Name, rec.Selection
		if have == nil {
			return errdef.NotFound(errdef.Selection, name, "Resolve makes one, and so does a run")
		}
		d = placement.Selection{Index: have.Index, PolicyDigest: have.PolicyDigest, Digest: have.Digest}
		d.Clusters, err = v.state.Picked(ctx, name, have)
		return err
	})
	return d, err
}

// Placed yields the clusters that have something of the placement or may, ascending
// by name, and those that a run is about to bring something. It reads records
// and asks no cluster: what was changed there since is a matter of [Engine.Drift].
// It reads the runs that are under way, and of those that have ended the last ones
// that brought what clusters have.
func (v *PlacementView) Placed(ctx context.Context) iter.Seq2[PlacedCluster, error] {
	return func(yield func(PlacedCluster, error) bool) {
		var s *summary
		err := v.read(ctx, func(rec *record.Placement) (err error) {
			s, err = summarize(ctx, v.state, rec)
			return err
		})
		s.yield(err, yield)
	}
}
