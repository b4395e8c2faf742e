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

// Capture takes a snapshot of the current objects of the source, with the placement's current
// overrides, and returns it. If nothing differs from the latest snapshot, it returns that one.
// Selectors that pick no object are an error, unless the placement has AllowEmpty. It may be called
// concurrently, in any number of engines: every snapshot gets the next index, and the latest one is
// always complete.
func (h PlacementHandle) Capture(ctx context.Context) (snapshot.Snapshot, error) {
	return h.e.planner.Capture(ctx, h.name)
}

// PreviewCapture returns the snapshot that [PlacementHandle.Capture] would take, with its items as
// [PlacementView.Items] returns them, and writes nothing. It is for a host whose runs take the
// snapshots, because they are created without an index, and that shows the selected objects, or the
// problems of the selection, before then. The index is the index of the latest snapshot if nothing
// differs from it, and otherwise the next one, which another snapshot may get.
func (h PlacementHandle) PreviewCapture(ctx context.Context) (snapshot.Snapshot, []snapshot.Item, error) {
	return h.e.planner.PreviewCapture(ctx, h.name)
}

// SetIrreversible marks a snapshot as irreversible, or removes the mark. Its changes cannot be
// undone, such as a change of a database, so no cluster is rolled back past it. A cluster that has
// the snapshot or a newer one, or may have parts of one, gets no older snapshot, and no rollback
// cleans it. This applies to rollbacks and to runs of an older index, which fail. by is recorded
// in the event. It is no error if the mark is set or removed already.
func (h PlacementHandle) SetIrreversible(ctx context.Context, index int, irreversible bool, by string) error {
	return markSnapshot(ctx, h.e.state, h.name, index, by, irreversible)
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
