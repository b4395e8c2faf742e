package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

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
