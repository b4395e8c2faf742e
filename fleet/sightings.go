package fleet

import (
	"context"
)

// Drifted returns the recorded drift of a placement: the clusters that differed or could not be compared when
// a run or the drift reconciler of [Engine.Run] last compared them, ascending by cluster. It reads the store
// only; [Engine.Drift] compares the clusters themselves.
//
// Observed of a cluster is when the recorded drift last changed, or, in the engine that reconciles the
// placement, when the cluster was last compared.
func (e *Engine) Drifted(ctx context.Context, name string) ([]ClusterDrift, error) {
	return e.drifts.Drifted(ctx, name)
}
