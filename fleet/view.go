package fleet

import (
	"context"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// PlacementView is a placement as its record was at one moment: the record is read once, and all answers are
// consistent with it. What the record refers to is read by the method that needs it; where that is gone
// because the record was written since, the placement is read again. Its methods may be called concurrently,
// and the caller owns what they return.
type PlacementView struct {
	engine *Engine
	rec    *record.Placement // shared
	rev    backend.Revision
}

// View reads the record of a placement.
func (e *Engine) View(ctx context.Context, placement string) (*PlacementView, error) {
	rec, rev, err := e.state.SeenPlacement(ctx, placement)
	if err != nil {
		return nil, err
	}
	return &PlacementView{e, rec, rev}, nil
}

func (v *PlacementView) name() string { return v.rec.Placement.Name }

// isStale reports whether something is missing because the view is out of date.
func (v *PlacementView) isStale(ctx context.Context, err error) bool {
	return v.engine.state.IsStale(ctx, v.name(), v.rev, err)
}

// Snapshots returns the snapshots that are kept, ascending by index; the last is
// the latest.
func (v *PlacementView) Snapshots() []snapshot.Snapshot { return slices.Clone(v.rec.Snapshots) }

// Tag returns what a digest of content of the placement is shown as where the content is
// not, as that of Secrets is not: 64 hexadecimal digits, the same for the same digest as
// long as the placement is there. With the digest itself a guess of the rest could be
// tested.
func (v *PlacementView) Tag(digest string) string { return keyed.Tag(v.rec.Key, "shown", digest) }

// Irreversible returns the indexes of the snapshots that [Engine.MarkIrreversible]
// has marked, ascending.
func (v *PlacementView) Irreversible() []int { return slices.Clone(v.rec.Irreversible) }

// Items is [Engine.Items].
func (v *PlacementView) Items(ctx context.Context, index int) ([]snapshot.Item, error) {
	items, err := v.items(ctx, index)
	if v.isStale(ctx, err) {
		return v.engine.Items(ctx, v.name(), index)
	}
	return items, err
}

func (v *PlacementView) items(ctx context.Context, index int) ([]snapshot.Item, error) {
	s, err := state.SnapshotAt(v.rec, index)
	if err != nil {
		return nil, err
	}
	items, _, err := v.engine.contents.Indexed(ctx, v.name(), s.Set)
	return slices.Clone(items), err
}

// Overrides is [Engine.Overrides].
func (v *PlacementView) Overrides(ctx context.Context, index int) ([]placement.Override, error) {
	overrides, err := v.engine.state.OverridesOf(ctx, v.rec, index)
	if v.isStale(ctx, err) {
		return v.engine.Overrides(ctx, v.name(), index)
	}
	return overrides, err
}

// Placed yields the clusters that have something of the placement or may, ascending
// by name, and those that a run is about to bring something. It reads records
// and asks no cluster: what was changed there since is a matter of [Engine.Drift].
// It reads the runs that are under way, and of those that have ended the last ones
// that brought what clusters have.
func (v *PlacementView) Placed(ctx context.Context) iter.Seq2[PlacedCluster, error] {
	return func(yield func(PlacedCluster, error) bool) {
		s, err := summarize(ctx, v.engine.state, v.rec)
		if v.isStale(ctx, err) {
			placed(ctx, v.engine.state, v.name())(yield)
			return
		}
		s.yield(err, yield)
	}
}

// Snapshots returns the snapshots of a placement that are kept, ascending by
// index; the last is the latest.
func (e *Engine) Snapshots(ctx context.Context, name string) ([]snapshot.Snapshot, error) {
	v, err := e.View(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.Snapshots(), nil
}

// Items returns what a snapshot consists of, before overrides, in the order of
// application. [snapshot.Compare] says what two of them differ in.
func (e *Engine) Items(ctx context.Context, name string, index int) ([]snapshot.Item, error) {
	v, err := e.View(ctx, name)
	if err != nil {
		return nil, err
	}
	return v.items(ctx, index)
}
