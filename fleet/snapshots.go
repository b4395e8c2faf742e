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
	s, err := h.e.planner.Capture(ctx, h.name)
	return s, h.e.admitter.Sweep(ctx, h.name, err)
}

// PreviewCapture returns the snapshot that [PlacementHandle.Capture] would take, with its items as
// [PlacementView.Items] returns them, and writes nothing. It is for a host that creates runs
// without an index, so that the runs take the snapshots. Such a host can show the selected objects,
// or the problems of the selection, before it creates a run. If nothing differs from the latest
// snapshot, the result has its index; otherwise the result has the next index, which another
// snapshot may get in the end.
func (h PlacementHandle) PreviewCapture(ctx context.Context) (snapshot.Snapshot, []snapshot.Item, error) {
	return h.e.planner.PreviewCapture(ctx, h.name)
}

// SetIrreversible marks a snapshot as irreversible, or removes the mark. Mark a snapshot if its
// changes cannot be undone, such as a change of a database. If a cluster has the snapshot or a
// newer one, or may have parts of one, the engine brings it no older snapshot, and no rollback
// cleans it. A run that would bring such a cluster an older snapshot fails. by is recorded in the
// event. It is no error if the mark is set or removed already.
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
