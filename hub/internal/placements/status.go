package placements

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// served is a placement with its state in the engine.
type served struct {
	placement fleet.Placement
	rollout   kubefleet.Rollout
	decision  *status.Selection
	view      *fleet.PlacementView
	// problem is the error that prevents the capture, the decision or the rollout.
	problem error
}

// writePlacement writes the status of a placement.
func (r *Reconciler) writePlacement(ctx context.Context, k api.Key, obj *unstructured.Unstructured, now served) (err error) {
	p, d := now.placement, now.decision
	facts := &status.PlacementFacts{
		Namespace: k.Namespace, Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time,
		Placement: &p, External: now.rollout.Type == v1beta1.ExternalRolloutStrategyType, Unselected: now.problem,
		Scheduled: d.Digest != "", Decision: d, Latest: -1, Listed: r.Listed,
	}
	if omitted, ok := r.omitted.Load(k); ok {
		facts.Omitted = omitted.([]snapshot.Omission)
	}
	var rendering *placement.RenderingError
	var unrendered []int
	snapshots := now.view.Snapshots()
	if n := len(snapshots); n > 0 {
		facts.Latest, facts.Taken, facts.Snapshots = snapshots[n-1].Index, snapshots[n-1].TakenAt, snapshots
	}
	switch {
	case d.Digest == "":
		facts.Unselected, facts.Unscheduled = nil, now.problem
	case errors.As(now.problem, &rendering):
		facts.Unselected, facts.Unrendered = nil, rendering.Failures
		facts.AtATime = now.rollout.AtATime(len(d.Clusters))
		unrendered = []int{facts.Latest}
	}
	have, err := placedIn(ctx, now.view)
	if err != nil {
		return err
	}
	if err := r.showBindings(ctx, k, d.Clusters, have); err != nil {
		return err
	}
	r.reached.update(r.Reached, k, obj, &p, have)
	if facts.Picked, err = r.picked(ctx, p.Name, have, &d.Selection); err != nil {
		return err
	}
	if !facts.External {
		for i := range facts.Picked {
			facts.Picked[i].Unreached = false // a rolling update begins by itself
		}
	}
	r.Queues.Resize(api.PlacementKind, p.Name, min(len(facts.Picked), r.Listed))
	if facts.Overrides, err = r.Overrides.Tried(ctx, p.Name, snapshots, facts.Picked, unrendered...); err != nil {
		return err
	}
	if len(facts.Overrides) > 0 {
		if facts.Members, err = r.Clusters.All(ctx); err != nil {
			return err
		}
	}
	if facts.Drift, err = r.Drifts.shown(ctx, p.Name, driftIn(r.Engine)); err != nil {
		return err
	}
	var unread error
	facts.Resources = func(index int) []snapshot.Item {
		items, err := r.items(ctx, p.Name, now.view, index)
		unread = errors.Join(unread, err)
		return items
	}
	st := status.Placement(facts)
	shown := r.showInNamespace(ctx, obj, &p, st)
	err = errors.Join(r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj, st), shown)
	if errors.Is(unread, backend.ErrPermanent) || errors.Is(unread, backend.ErrNotFound) {
		return err // a retry does not help; the status leaves these resources out
	}
	return errors.Join(err, unread)
}

// items returns the items of a snapshot. It caches the items of the last keptSnapshots snapshots,
// because a snapshot never changes.
func (r *Reconciler) items(ctx context.Context, name string, view *fleet.PlacementView, index int) ([]snapshot.Item, error) {
	type frozen struct {
		index int
		items []snapshot.Item
	}
	last, _ := r.shownItems.Load(name)
	kept, _ := last.([]frozen)
	if i := slices.IndexFunc(kept, func(f frozen) bool { return f.index == index }); i >= 0 {
		return kept[i].items, nil
	}
	items, err := view.Items(ctx, index)
	if err != nil {
		return nil, err
	}
	r.shownItems.Store(name, append([]frozen{{index, items}}, kept[:min(len(kept), keptSnapshots-1)]...))
	return items, nil
}

// keptSnapshots is the number of snapshots per placement whose items are cached. The clusters of a
// placement use few snapshots at a time.
const keptSnapshots = 3

// placedIn returns the clusters of a view by name.
func placedIn(ctx context.Context, view *fleet.PlacementView) (map[string]fleet.PlacedCluster, error) {
	have := map[string]fleet.PlacedCluster{}
	for c, err := range view.Placed(ctx) {
		if err != nil {
			return nil, err
		}
		have[c.Name] = c
	}
	return have, nil
}

// picked returns the recorded state of each cluster of a decision.
func (r *Reconciler) picked(ctx context.Context, name string, have map[string]fleet.PlacedCluster, d *placement.Selection) ([]status.PlacedCluster, error) {
	active := ""
	for _, c := range have {
		if c.Run != "" {
			active = c.Run
		}
	}
	flights, err := r.inFlight(ctx, active)
	if err != nil {
		return nil, err
	}
	failing := r.Engine.Placement(name).Failing()
	out := make([]status.PlacedCluster, len(d.Clusters))
	for i, cluster := range d.Clusters {
		c, ok := have[cluster]
		if !ok {
			c = fleet.PlacedCluster{Index: -1, Tried: -1}
		}
		out[i] = status.PlacedCluster{Name: cluster, Index: c.Index, Tried: c.Tried, State: c.State, Run: status.RunName(c.Run), Since: c.Since}
		out[i].Unreached = c.Tried >= 0 && c.Index == c.Tried && c.Policy > 0 && c.Policy <= d.Index
		if f, ok := flights[cluster]; ok {
			out[i].Applied, out[i].Message = f.Phase == stages.Settling || f.Phase == stages.Soaking, f.Message
		}
		if f := failing[cluster]; c.Run == "" || c.Run == f.Run {
			out[i].Failing = f.Objects
		}
	}
	return out, nil
}

// inFlight returns the clusters in flight of a run, by name; run is the run that is active on the
// placement, or empty.
func (r *Reconciler) inFlight(ctx context.Context, run string) (map[string]runstate.InFlight, error) {
	out := map[string]runstate.InFlight{}
	if run == "" {
		return out, nil
	}
	st, err := r.Engine.Run(run).Status(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range st.Run.Form(runstate.Key{}).InFlight {
		if f.Attempt > 0 {
			out[st.Plan.Clusters[f.Pos].Name] = f
		}
	}
	return out, nil
}
