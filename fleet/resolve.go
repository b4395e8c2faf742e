package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
)

// Resolution is a selection with its explanation.
type Resolution struct {
	placement.Selection
	// Evaluations explain the selection, by name, for each cluster of the inventory and for the
	// additional clusters that a PickFixed policy names.
	Evaluations []placement.Evaluation `json:"evaluations"`
	// Shortfall says why a PickN policy picks fewer clusters than it wants, or a PickFixed policy
	// than it names; empty if it picks as many.
	Shortfall string `json:"shortfall,omitempty"`
}

// Resolve decides which clusters a placement picks now, without a run. If the result differs from
// the last selection, because of the policy or the inventory, it is recorded with a
// SelectionChanged event; otherwise nothing is written. A run that is created decides again.
//
// For [placement.Decide], the clusters placed already are the ones in the last recorded selection,
// by Resolve or by a run, and the updated clusters are the ones that a run has begun to update.
// Therefore a selection is stable across restarts.
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

// PreviewSelection returns the result that [Engine.Resolve] would return, and writes nothing. If
// policy is not nil, it replaces the placement's policy in the preview; the placement may be
// declared with it afterwards.
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
