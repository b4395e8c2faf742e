package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Content returns what a snapshot consists of with the objects themselves, before
// overrides, verified by their digests. It is the caller's.
func (e *Engine) Content(ctx context.Context, name string, index int) (set snapshot.Set, err error) {
	err = e.withPlacement(ctx, name, func(rec *record.Placement) error {
		s, err := snapshotAt(rec, index)
		if err != nil {
			return err
		}
		set, err = e.contents.loadSet(ctx, name, s.Set)
		return err
	})
	return set, err
}

// Overrides returns the overrides as they were when the snapshot of that index was
// taken, in the order in which they are applied; none where it has none. The error
// is that of [Engine.Content].
func (e *Engine) Overrides(ctx context.Context, name string, index int) (overrides []placement.Override, err error) {
	err = e.withPlacement(ctx, name, func(rec *record.Placement) error {
		overrides, err = e.overridesOf(ctx, rec, index)
		return err
	})
	return overrides, err
}

// overridesOf reads the overrides of the snapshot of an index.
func (e *Engine) overridesOf(ctx context.Context, rec *record.Placement, index int) ([]placement.Override, error) {
	s, err := snapshotAt(rec, index)
	if err != nil {
		return nil, err
	}
	overrides, _, err := e.frozenOverrides(ctx, rec.Placement.Name, &s)
	return overrides, err
}

// content returns what reads a revision that an assignment brings.
func (e *Engine) content(placement, revision string) func(context.Context) (snapshot.Set, error) {
	return func(ctx context.Context) (snapshot.Set, error) { return e.contents.loadSet(ctx, placement, revision) }
}
