package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/snapshot"
)

// Capture takes a snapshot of what the source holds now, with the placement's overrides as they are, and
// returns it. Where nothing differs from the latest snapshot it returns that one. Selectors that pick no
// object are an error. It may be called concurrently, in any number of engines: every snapshot gets the next
// index, and the latest one is always complete.
func (e *Engine) Capture(ctx context.Context, name string) (snapshot.Snapshot, error) {
	return e.planner.Capture(ctx, name)
}
