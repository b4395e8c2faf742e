package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/snapshot"
)

// Content returns what a snapshot consists of with the objects themselves, before
// overrides, verified by their digests. It is the caller's.
func (e *Engine) Content(ctx context.Context, name string, index int) (set snapshot.Set, err error) {
	err = e.withPlacement(ctx, name, func(rec *placementRecord) error {
		s, err := rec.snapshotAt(index)
		if err != nil {
			return err
		}
		set, err = e.contents.loadSet(ctx, name, s.Set)
		return err
	})
	return set, err
}

// content returns what reads a revision that an assignment brings.
func (e *Engine) content(placement, revision string) func(context.Context) (snapshot.Set, error) {
	return func(ctx context.Context) (snapshot.Set, error) { return e.contents.loadSet(ctx, placement, revision) }
}
