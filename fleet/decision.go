package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
)

// Decision returns the last decision about a placement that [Engine.Resolve] or
// a run recorded. The error matches backend.ErrNotFound where there is none yet.
func (e *Engine) Decision(ctx context.Context, name string) (d placement.Decision, err error) {
	err = e.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		have := rec.Decision
		if have == nil {
			return &state.NotFoundError{Kind: "decision", Name: name, Hint: "Resolve makes one, and so does a run"}
		}
		d = placement.Decision{Index: have.Index, PolicyDigest: have.PolicyDigest, Digest: have.Digest}
		d.Clusters, err = e.state.Picked(ctx, name, have)
		return err
	})
	return d, err
}
