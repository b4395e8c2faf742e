package planning

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Resolution is a selection with the evaluations that led to it. fleet.Resolution shows it to the
// host.
type Resolution struct {
	placement.Selection
	Evaluations []placement.Evaluation
	Shortfall   string
}

// Resolve decides which clusters a placement picks now.
func (pl *Planner) Resolve(ctx context.Context, rec *record.Placement, inventory map[string]placement.Cluster) (Resolution, error) {
	held, err := pl.state.BindingsOf(ctx, rec)
	if err != nil {
		return Resolution{}, err
	}
	return pl.resolveOver(ctx, rec, inventory, held, nil)
}

// resolveOver is Resolve for a caller that has read the bindings. It does not pick clusters that
// runs evict, or the clusters in evicted.
func (pl *Planner) resolveOver(
	ctx context.Context, rec *record.Placement, inventory map[string]placement.Cluster, held lifecycle.Bindings, evicted []string,
) (Resolution, error) {
	previous, err := pl.previous(ctx, rec, held)
	if err != nil {
		return Resolution{}, err
	}
	previous.HeldOut, previous.Namespace = rec.Evicting(), rec.Placement.Namespace
	for cluster, run := range previous.HeldOut {
		previous.HeldOut[cluster] = "run " + run + " evicts it"
	}
	for _, cluster := range evicted {
		previous.HeldOut[cluster] = "it is evicted"
	}
	policy := rec.Placement.Policy
	d, verdicts, err := placement.Decide(policy, slices.Collect(maps.Values(inventory)), previous)
	if err != nil {
		return Resolution{}, fmt.Errorf("placement %s: %w", rec.Placement.Name, err)
	}
	d.Index = rec.SelectionIndex(d.PolicyDigest)
	return Resolution{d, verdicts, placement.Shortfall(policy, verdicts)}, nil
}

// previous returns the clusters that a placement already has: the clusters of the last selection
// or, if those are unknown, the clusters with bindings. The value is true for clusters that may
// have objects.
func (pl *Planner) previous(ctx context.Context, rec *record.Placement, held lifecycle.Bindings) (_ placement.Previous, err error) {
	out := placement.Previous{Clusters: map[string]bool{}}
	names := slices.Collect(maps.Keys(held))
	if d := rec.Selection; d != nil {
		out.PolicyDigest = d.PolicyDigest
		if d.Pages > 0 || d.Clusters == 0 {
			names, err = pl.state.Selections.Read(ctx, rec.Placement.Name, d)
		}
	}
	for _, name := range names {
		out.Clusters[name] = !held.Of(name).HasNothing()
	}
	if err == nil && rec.Placement.Policy.Type == placement.PickN {
		err = pl.startedBy(ctx, rec, out.Clusters)
	}
	return out, err
}

// startedBy marks the clusters that unfinished runs have started to update as placed, because the
// bindings contain their changes only after the runs end.
func (pl *Planner) startedBy(ctx context.Context, rec *record.Placement, placed map[string]bool) error {
	for _, r := range rec.Runs {
		if r.Ended != "" {
			continue
		}
		status, err := pl.state.Status(ctx, r.Name)
		if state.IsNotFound(err) || err == nil && status.Run.UID != r.UID {
			continue // it was deleted since
		}
		if err != nil {
			return err
		}
		for pos, state := range status.Run.States(status.Plan) {
			c := &status.Plan.Clusters[pos]
			if _, is := placed[c.Name]; is && c.Revision >= 0 && state != stages.NotStarted && state != stages.Skipped {
				placed[c.Name] = true
			}
		}
	}
	return nil
}
