package state

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// Ahead returns the run that keeps a failed run from starting again; empty if there is none, or if
// that cannot be decided. Nothing is written.
func (st *State) Ahead(ctx context.Context, s *RunStatus) (run string) {
	if s.Run.State != stages.Failed || s.Run.Final(s.Plan) {
		return ""
	}
	_ = st.WithPlacement(ctx, s.Run.Placement, func(rec *record.Placement) error {
		out, err := st.Outcome(ctx, rec, &Transition{Input: Always(lifecycle.RetryAsked{
			Entry: lifecycle.Entry{UID: s.Run.UID, Run: s.Run.Name, Index: s.Plan.Index}, Attempt: s.Run.Attempt + 1, Epoch: rec.Epoch,
		})})
		run = out.Turn.WaitsFor
		return err
	})
	return run
}
