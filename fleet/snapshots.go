package fleet

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/snapshot"
)

// Capture takes a snapshot of what the source holds now, with the placement's overrides as they are, and
// returns it. Where nothing differs from the latest snapshot it returns that one. Selectors that pick no
// object are an error. It may be called concurrently, in any number of engines: every snapshot gets the next
// index, and the latest one is always complete.
func (e *Engine) Capture(ctx context.Context, name string) (snapshot.Snapshot, error) {
	return e.planner.Capture(ctx, name)
}

// PreviewCapture returns the snapshot that [Engine.Capture] would and what it consists of, as
// [PlacementView.Items] has it, and writes nothing. It is for a host that leaves it to runs to take snapshots, as
// one that names no index does when it is created, and tells meanwhile what is selected, or what is wrong with it. The
// index is that of the latest snapshot where nothing differs from it, and the next one otherwise, which another
// snapshot may get.
func (e *Engine) PreviewCapture(ctx context.Context, name string) (snapshot.Snapshot, []snapshot.Item, error) {
	return e.planner.PreviewCapture(ctx, name)
}

// SetIrreversible marks a snapshot as one that nothing is rolled back past, or takes the mark away: what it brings cannot
// be undone, as a change of a database. No cluster that has it or a newer snapshot, or may have parts of one, goes to an
// older one, or to nothing because it had nothing before: neither where a run is rolled back nor in a run of
// an older index, which is an error then. by is recorded in the event. That it is marked already, or is not, is no error.
func (e *Engine) SetIrreversible(ctx context.Context, placement string, index int, irreversible bool, by string) error {
	return markSnapshot(ctx, e.state, placement, index, by, irreversible)
}

func markSnapshot(ctx context.Context, st *state.State, name string, index int, by string, irreversible bool) error {
	if len(by) > mostName {
		return problems.About("mark of placement "+name, field.ErrorList{field.TooLong(field.NewPath("by"), "", mostName)})
	}
	_, _, err := st.Advance(ctx, name, &state.Transition{Input: func(rec *record.Placement) (lifecycle.Input, error) {
		in := lifecycle.IrreversibleMarked{Index: index, Reversible: !irreversible, By: by}
		if !irreversible || rec.Deleting != nil || slices.Contains(rec.Irreversible, index) {
			return in, nil
		}
		_, err := state.SnapshotAt(rec, index)
		return in, err
	}})
	return err
}
