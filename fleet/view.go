package fleet

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// PlacementView is a placement at one moment: its record is read once, and all answers are
// consistent with it. A method reads the data that the record refers to when it needs them. If that
// data was deleted and the record was written since, the method reads the placement again and
// answers from the newer record. The methods may be called concurrently, and the caller owns the
// results.
type PlacementView struct {
	state    *state.State
	contents *content.Store
	rec      *record.Placement // shared
	rev      backend.Revision
}

// View reads the record of a placement. The error matches backend.ErrNotFound if there is no
// placement of that name.
func (h PlacementHandle) View(ctx context.Context) (*PlacementView, error) {
	rec, rev, err := h.e.state.SeenPlacement(ctx, h.name)
	if err != nil {
		return nil, err
	}
	return &PlacementView{h.e.state, h.e.contents, rec, rev}, nil
}

// Failing returns, by name, the clusters of a placement on which objects of an update were last
// seen failing, with these objects. It is the engine's memory of its own updates, for display: it
// does not outlast the process, and is replaced by the next comparison of a cluster. For a cluster
// that is no longer updated it shows the result of the last update.
func (h PlacementHandle) Failing() map[string]FailingCluster { return h.e.failing.of(h.name) }

// read calls do with the record of the view. If do returns a not-found error and the record was
// written since, read calls do again with the current record.
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

// DeletingSince returns the time of the request to delete the placement; zero if it is not being
// deleted. [PlacementHandle.Deletion] has the progress.
func (v *PlacementView) DeletingSince() time.Time {
	if v.rec.Deleting == nil {
		return time.Time{}
	}
	return v.rec.Deleting.Since.Time()
}

// Version returns a token that changes if the placement gains or loses a run, if a run ends or
// starts again, or if the revision of a cluster changes. RunSpec.Version makes a run conditional on
// it: see [Engine.CreateRun].
func (v *PlacementView) Version() string { return v.rec.Version() }

// RunNames returns the names of the placement's runs, as [PlacementHandle.RunNames] does.
func (v *PlacementView) RunNames() []string { return runNames(v.rec) }

// Unended returns the names of the runs whose end the placement's record does not have yet, in the
// order of their creation. Only the runs' own records have the changes that they have made to
// clusters so far.
func (v *PlacementView) Unended() (names []string) {
	for i := range v.rec.Runs {
		if v.rec.Runs[i].Ended == "" {
			names = append(names, v.rec.Runs[i].Name)
		}
	}
	return names
}

// Irreversible returns the indexes of the snapshots that [PlacementHandle.SetIrreversible]
// has marked, ascending.
func (v *PlacementView) Irreversible() []int { return slices.Clone(v.rec.Irreversible) }

// Tag returns a substitute for a digest, for displays that hide the content, such as Secrets: 64
// hexadecimal digits, the same for the same digest while the placement exists. The digest itself
// would let a reader test guesses of the hidden content.
func (v *PlacementView) Tag(digest string) string { return keyed.Tag(v.rec.Key, "shown", digest) }

// Items returns the items of the snapshot of an index, before overrides, in the order of
// application, each with the envelope that it came in. It omits objects that cannot be applied
// because they have no name: see Snapshot.Unplaced of [PlacementView.Snapshots]. [snapshot.Compare]
// returns the differences between two snapshots. The error matches backend.ErrNotFound if the
// snapshot is not kept, and names the snapshots that are.
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

// Content returns the items of the snapshot of an index with the objects themselves, before
// overrides, verified by their digests. Errors are as for [PlacementView.Items].
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

// Overrides returns the overrides that the snapshot of that index froze, in the order in which they
// are applied; none if it has none. Errors are as for [PlacementView.Items].
func (v *PlacementView) Overrides(ctx context.Context, index int) (overrides []placement.Override, err error) {
	err = v.read(ctx, func(rec *record.Placement) (err error) {
		overrides, err = v.state.OverridesOf(ctx, rec, index)
		return err
	})
	return overrides, err
}

// Selection returns the last selection of the placement that [PlacementHandle.Resolve] or a run
// recorded. The error matches backend.ErrNotFound if there is none yet.
func (v *PlacementView) Selection(ctx context.Context) (d placement.Selection, err error) {
	err = v.read(ctx, func(rec *record.Placement) (err error) {
		name, have := rec.Placement.Name, rec.Selection
		if have == nil {
			return errdef.NotFound(errdef.Selection, name, "a preview of the policy that is recorded, or a run, makes one")
		}
		d = placement.Selection{Index: have.Index, PolicyDigest: have.PolicyDigest, Digest: have.Digest}
		d.Clusters, err = v.state.Selections.Read(ctx, name, have)
		return err
	})
	return d, err
}

// Placed yields, ascending by name, the clusters that have or may have objects of the placement,
// and the clusters that a run is about to update. It reads records and asks no cluster:
// [PlacementHandle.Drift] finds later changes on the clusters. It reads the runs that are under
// way, and the last ended runs that brought the current revisions of the clusters.
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
