package fleet

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/approval"
)

// CatchUp creates a run that follows one that has ended: it takes the clusters
// that failed or were skipped, and those that the placement picks and the run
// did not know, to the same frozen target by the same strategy.
//
// It fails when the run has not ended, and when there is nothing to catch up.
func (e *Engine) CatchUp(ctx context.Context, run, name string, starter approval.Identity) (Status, error) {
	s, err := e.state.Status(ctx, run)
	if err != nil {
		return Status{}, err
	}
	if !s.Run.IsEnded() {
		return Status{}, fmt.Errorf("run %s has not ended: it is %s; catch up when it has", run, s.Run.State)
	}
	spec := RunSpec{Name: name, Placement: s.Run.Placement, Index: &s.Plan.Index, Strategy: s.Plan.Strategy, Starter: starter}
	if err := spec.validate(); err != nil {
		return Status{}, err
	}
	created, err := e.admitter.CatchUp(ctx, spec.request(), &s)
	return Status(created), err
}
