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
// SelectionChanged event; otherwise nothing is written. Each new run decides again.
//
// Resolve passes to [placement.Decide], as the clusters placed already, the clusters of the last
// selection that Resolve or a run recorded. Clusters that a run has begun to update are passed as
// updated. Therefore a selection is stable across restarts.
func (h PlacementHandle) Resolve(ctx context.Context) (Resolution, error) {
	inventory, err := h.e.state.World.Inventory(ctx)
	if err != nil {
		return Resolution{}, err
	}
	var r planning.Resolution
	_, _, err = h.e.state.Advance(ctx, h.name, &state.Transition{
		Input: func(rec *record.Placement) (lifecycle.Input, error) {
			r, err = h.e.planner.Resolve(ctx, rec, inventory)
			return lifecycle.SelectionChanged{
				PolicyDigest: r.PolicyDigest, Digest: r.Digest, Clusters: len(r.Clusters), Pages: record.SelectionPages(len(r.Clusters)),
			}, err
		},
		Picked: func(context.Context) ([]string, error) { return r.Clusters, nil },
	})
	return Resolution(r), h.e.admitter.Sweep(ctx, h.name, err)
}

// PreviewResolve returns the result that [PlacementHandle.Resolve] would return, and writes
// nothing. If policy is not nil, it replaces the placement's policy in the preview; the placement
// may be declared with it afterwards.
func (h PlacementHandle) PreviewResolve(ctx context.Context, policy *placement.Policy) (Resolution, error) {
	inventory, err := h.e.state.World.Inventory(ctx)
	if err != nil {
		return Resolution{}, err
	}
	var r planning.Resolution
	err = h.e.state.WithPlacement(ctx, h.name, func(rec *record.Placement) error {
		if policy != nil {
			rec.Placement.Policy = *policy
		}
		r, err = h.e.planner.Resolve(ctx, rec, inventory)
		return err
	})
	return Resolution(r), err
}
