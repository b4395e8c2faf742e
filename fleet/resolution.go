package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// Resolution is a decision with what led to it.
type Resolution struct {
	placement.Decision
	// Verdicts explain the decision for each cluster of the inventory, by name.
	Verdicts []placement.Verdict
	// Shortfall says why a PickN policy picks fewer clusters than it wants; empty
	// where it picks as many.
	Shortfall string
}

// resolution is a decision with what led to it. It is what [Resolution] shows.
type resolution struct {
	placement.Decision
	Verdicts  []placement.Verdict
	Shortfall string
}

// Resolve decides which clusters a placement picks now, without a run. Where that differs from the last
// decision, by the policy or by the inventory, it is recorded with a DecisionTaken event; otherwise nothing
// is written. A run that is created decides again.
//
// What is placed already is what the last decision that was recorded picks, by
// Resolve or by a run, and updated is what a run has begun to bring something, as
// [placement.Decide] has it. So a decision stays across restarts.
func (e *Engine) Resolve(ctx context.Context, name string) (Resolution, error) {
	inventory, err := e.inventory(ctx)
	if err != nil {
		return Resolution{}, err
	}
	var r resolution
	_, _, err = e.advance(ctx, name, &transition{
		input: func(rec *record.Placement) (lifecycle.Input, error) {
			r, err = e.resolve(ctx, rec, inventory)
			return lifecycle.DecisionTaken{
				PolicyDigest: r.PolicyDigest, Digest: r.Digest, Clusters: len(r.Clusters), Pages: record.DecisionPages(len(r.Clusters)),
			}, err
		},
		picked: func(context.Context) ([]string, error) { return r.Clusters, nil },
	})
	return Resolution(r), err
}

// PreviewDecision returns what [Engine.Resolve] would, and writes nothing. With a
// policy it is what that would pick, were it the placement's, which it may be
// declared for afterwards.
func (e *Engine) PreviewDecision(ctx context.Context, name string, policy *placement.Policy) (Resolution, error) {
	inventory, err := e.inventory(ctx)
	if err != nil {
		return Resolution{}, err
	}
	var r resolution
	err = e.withPlacement(ctx, name, func(rec *record.Placement) error {
		if policy != nil {
			rec.Placement.Policy = *policy
		}
		r, err = e.resolve(ctx, rec, inventory)
		return err
	})
	return Resolution(r), err
}

// resolve decides which clusters a placement picks now.
func (e *Engine) resolve(ctx context.Context, rec *record.Placement, inventory map[string]placement.Cluster) (resolution, error) {
	held, err := e.bindingsOf(ctx, rec)
	if err != nil {
		return resolution{}, err
	}
	return e.resolveOver(ctx, rec, inventory, held)
}

// resolveOver is resolve for a caller that has read the bindings.
func (e *Engine) resolveOver(ctx context.Context, rec *record.Placement, inventory map[string]placement.Cluster, held lifecycle.Bindings) (resolution, error) {
	previous, err := e.previous(ctx, rec, held)
	if err != nil {
		return resolution{}, err
	}
	policy := rec.Placement.Policy
	d, verdicts, err := placement.Decide(policy, slices.Collect(maps.Values(inventory)), previous)
	if err != nil {
		return resolution{}, fmt.Errorf("placement %s: %w", rec.Placement.Name, err)
	}
	d.Index = rec.DecisionIndex(d.PolicyDigest)
	return resolution{d, verdicts, placement.Shortfall(policy, verdicts)}, nil
}

// previous returns the clusters that a placement has already: those that the last decision picked or, where
// that is not known, those of the bindings.
func (e *Engine) previous(ctx context.Context, rec *record.Placement, held lifecycle.Bindings) (_ placement.Previous, err error) {
	out := placement.Previous{Clusters: map[string]bool{}}
	names := slices.Collect(maps.Keys(held))
	if d := rec.Decision; d != nil {
		out.PolicyDigest = d.PolicyDigest
		if d.Pages > 0 || d.Clusters == 0 {
			names, err = e.picked(ctx, rec.Placement.Name, d)
		}
	}
	for _, name := range names {
		out.Clusters[name] = !held.Of(name).HasNothing()
	}
	if err == nil && rec.Placement.Policy.Type == placement.PickN {
		err = e.startedBy(ctx, rec, out.Clusters)
	}
	return out, err
}

// startedBy adds the clusters that runs which are under way have started to update: the bindings get those
// when the runs end.
func (e *Engine) startedBy(ctx context.Context, rec *record.Placement, placed map[string]bool) error {
	for _, r := range rec.Runs {
		if r.Ended != "" {
			continue
		}
		status, err := e.status(ctx, r.Name)
		if isNotFound(err) || err == nil && status.Run.UID != r.UID {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		for pos, state := range stages.States(status.Plan, &status.Run) {
			c := &status.Plan.Clusters[pos]
			if _, is := placed[c.Name]; is && c.Revision >= 0 && state != stages.NotStarted && state != stages.Skipped {
				placed[c.Name] = true
			}
		}
	}
	return nil
}
