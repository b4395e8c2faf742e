package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
)

// Resolution is a selection with what led to it.
type Resolution struct {
	placement.Selection
	// Evaluations explain the selection for each cluster of the inventory, and for those that a PickFixed policy
	// names besides, by name.
	Evaluations []placement.Evaluation `json:"evaluations"`
	// Shortfall says why a PickN policy picks fewer clusters than it wants, or a PickFixed
	// policy than it names; empty where it picks as many.
	Shortfall string `json:"shortfall,omitempty"`
}

// Resolve decides which clusters a placement picks now, without a run. Where that differs from the last
// selection, by the policy or by the inventory, it is recorded with a SelectionChanged event; otherwise nothing
// is written. A run that is created decides again.
//
// What is placed already is what the last selection that was recorded picks, by
// Resolve or by a run, and updated is what a run has begun to bring something, as
// [placement.Decide] has it. So a selection stays across restarts.
func (e *Engine) Resolve(ctx context.Context, name string) (Resolution, error) {
	inventory, err := e.state.Inventory(ctx)
	if err != nil {
		return Resolution{}, err
	}
	var r planning.Resolution
	_, _, err = e.state.Advance(ctx, name, &state.Transition{
		Input: func(rec *record.Placement) (lifecycle.Input, error) {
			r, err = e.planner.Resolve(ctx, rec, inventory)
			return lifecycle.SelectionChanged{
				PolicyDigest: r.PolicyDigest, Digest: r.Digest, Clusters: len(r.Clusters), Pages: record.SelectionPages(len(r.Clusters)),
			}, err
		},
		Picked: func(context.Context) ([]string, error) { return r.Clusters, nil },
	})
	return Resolution(r), err
}

// PreviewSelection returns what [Engine.Resolve] would, and writes nothing. With a
// policy it is what that would pick, were it the placement's, which it may be
// declared for afterwards.
func (e *Engine) PreviewSelection(ctx context.Context, name string, policy *placement.Policy) (Resolution, error) {
	inventory, err := e.state.Inventory(ctx)
	if err != nil {
		return Resolution{}, err
	}
	var r planning.Resolution
	err = e.state.WithPlacement(ctx, name, func(rec *record.Placement) error {
		if policy != nil {
			rec.Placement.Policy = *policy
		}
		r, err = e.planner.Resolve(ctx, rec, inventory)
		return err
	})
	return Resolution(r), err
}
