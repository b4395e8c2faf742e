package fleet

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// Capture takes a snapshot of what the source holds now, with the placement's overrides as they are, and
// returns it. Where nothing differs from the latest snapshot it returns that one. Selectors that pick no
// object are an error. It may be called concurrently, in any number of engines: every snapshot gets the next
// index, and the latest one is always complete.
func (e *Engine) Capture(ctx context.Context, name string) (snapshot.Snapshot, error) {
	return e.planner.Capture(ctx, name)
}

// Content returns what a snapshot consists of with the objects themselves, before
// overrides, verified by their digests. It is the caller's.
func (e *Engine) Content(ctx context.Context, name string, index int) (set snapshot.Set, err error) {
	err = e.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		s, err := state.SnapshotAt(rec, index)
		if err != nil {
			return err
		}
		set, err = e.contents.LoadSet(ctx, name, s.Set)
		return err
	})
	return set, err
}

// Overrides returns the overrides as they were when the snapshot of that index was
// taken, in the order in which they are applied; none where it has none. The error
// is that of [Engine.Content].
func (e *Engine) Overrides(ctx context.Context, name string, index int) (overrides []placement.Override, err error) {
	err = e.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		overrides, err = e.state.OverridesOf(ctx, rec, index)
		return err
	})
	return overrides, err
}

// MarkIrreversible marks a snapshot as one that nothing is rolled back past: what it brings cannot be undone,
// as a change of a database. No cluster that has it or a newer snapshot, or may have parts of one, goes to an
// older one, or to nothing because it had nothing before: neither where a run is rolled back nor in a run of
// an older index, which is an error then. by is recorded in the event. That it is marked already is no error.
func (e *Engine) MarkIrreversible(ctx context.Context, placement string, index int, by string) error {
	return e.markSnapshot(ctx, placement, index, by, true)
}

// UnmarkIrreversible takes the mark of [Engine.MarkIrreversible] away. That there is
// none is no error.
func (e *Engine) UnmarkIrreversible(ctx context.Context, placement string, index int, by string) error {
	return e.markSnapshot(ctx, placement, index, by, false)
}

func (e *Engine) markSnapshot(ctx context.Context, name string, index int, by string, irreversible bool) error {
	if len(by) > mostName {
		return problems.About("mark of placement "+name, field.ErrorList{field.TooLong(field.NewPath("by"), "", mostName)})
	}
	_, _, err := e.state.Advance(ctx, name, &state.Transition{Input: func(rec *record.Placement) (lifecycle.Input, error) {
		in := lifecycle.IrreversibleMarked{Index: index, Reversible: !irreversible, By: by}
		if !irreversible || rec.Deleting != nil || slices.Contains(rec.Irreversible, index) {
			return in, nil
		}
		_, err := state.SnapshotAt(rec, index)
		return in, err
	}})
	return err
}
