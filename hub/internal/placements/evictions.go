package placements

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
)

// evictionPrefix begins the names of eviction runs. Because of [kubefleet.EngineName], no object
// has such a name.
const evictionPrefix = "e."

// EvictionRun returns the engine name of the run that carries out the eviction with that UID. Each
// eviction has one run.
func EvictionRun(uid string) string { return evictionPrefix + uid }

// evictedSince reports whether the placement has an eviction run that is newer than the given run,
// and whether one of these eviction runs has not ended. names are the runs of the placement, oldest
// first.
func evictedSince(ctx context.Context, engine *fleet.Engine, names []string, run string) (evicted, goesOn bool, err error) {
	for _, run := range names[slices.Index(names, run)+1:] {
		if !strings.HasPrefix(run, evictionPrefix) {
			continue
		}
		st, err := engine.Run(run).Status(ctx)
		switch {
		case errors.Is(err, backend.ErrNotFound):
		case err != nil:
			return false, false, err
		default:
			evicted, goesOn = true, goesOn || !st.Run.IsEnded()
		}
	}
	return evicted, goesOn, nil
}

// IsAdmitted reports whether the placement has the run of that name. A run that is recorded and has
// not been admitted may be withdrawn.
func (r *Reconciler) IsAdmitted(ctx context.Context, placement, run string) (bool, error) {
	names, err := r.Engine.Placement(placement).RunNames(ctx)
	return slices.Contains(names, run), err
}

// IsCurrent reports whether the placement of an object still has the version of the facts.
func (r *Reconciler) IsCurrent(ctx context.Context, obj *unstructured.Unstructured, facts *status.EvictionFacts) (bool, error) {
	view, err := r.Engine.Placement(kubefleet.EngineName(obj.GetNamespace(), obj.GetName())).View(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		return facts.Version == "", nil
	}
	if err != nil {
		return false, err
	}
	return view.Version() == facts.Version, nil
}

// Evictable returns the facts that decide about the eviction of a cluster from a placement, except
// the budget. If the engine has no placement of this object, the facts contain only the
// declaration. The facts about runs and clusters hold as long as the placement has the version of
// the facts.
func (r *Reconciler) Evictable(ctx context.Context, obj *unstructured.Unstructured, cluster string) (*status.EvictionFacts, error) {
	facts := &status.EvictionFacts{Cluster: cluster, Deleting: obj.GetDeletionTimestamp() != nil, Removing: map[string]bool{}}
	name := kubefleet.EngineName(obj.GetNamespace(), obj.GetName())
	read, err := r.documents.Of(obj, readPlacement)
	if err != nil {
		return nil, err
	}
	facts.Placement = &status.PlacementFacts{Placement: &read.placement, Latest: -1}
	declared, err := r.Engine.Placement(name).Get(ctx)
	if errors.Is(err, backend.ErrNotFound) || err == nil && declared.Owner != string(obj.GetUID()) {
		return facts, nil // the object is not declared, so no cluster has anything from it
	}
	if err != nil {
		return nil, err
	}
	view, err := r.Engine.Placement(name).View(ctx)
	if err != nil {
		return nil, err
	}
	facts.Version = view.Version()
	have, err := placedIn(ctx, view)
	if err != nil {
		return nil, err
	}
	decision, err := view.Selection(ctx)
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return nil, err
	}
	clusters := slices.Compact(slices.Sorted(slices.Values(slices.Concat(decision.Clusters, slices.Collect(maps.Keys(have))))))
	if facts.Placement.Picked, err = r.picked(ctx, name, have, &placement.Selection{Clusters: clusters, Index: -1}); err != nil {
		return nil, err
	}
	if facts.Placement.Drift, err = driftIn(r.Engine)(ctx, name); err != nil {
		return nil, err
	}
	return facts, addRuns(ctx, r.Engine, view, facts)
}

// addRuns adds the effects of the unended runs of a view to the facts. It also counts a run that
// has ended since the view was read, because the bindings in the view are older than its end.
func addRuns(ctx context.Context, engine *fleet.Engine, view *fleet.PlacementView, facts *status.EvictionFacts) error {
	for _, name := range view.Unended() {
		st, err := engine.Run(name).Status(ctx)
		if errors.Is(err, backend.ErrNotFound) {
			return fmt.Errorf("run %s was deleted since the placement was read: %w", name, backend.ErrConflict)
		}
		if err != nil {
			return err
		}
		if !strings.HasPrefix(name, evictionPrefix) && !strings.HasPrefix(name, rollingPrefix) && !st.Run.IsEnded() {
			facts.Run = status.RunName(name)
		}
		for pos := range st.Plan.Clusters {
			if c := &st.Plan.Clusters[pos]; c.Revision < 0 {
				facts.Removing[c.Name] = true
			}
		}
	}
	return nil
}

// showBindings enqueues the bindings of a placement if they have changed. Clusters that are being
// evicted have none. A queue of their own writes the bindings, because there are as many as
// clusters.
func (r *Reconciler) showBindings(ctx context.Context, k api.Key, picked []string, have map[string]fleet.PlacedCluster) error {
	if r.NoBindings || k.Namespace != "" {
		return nil
	}
	going, err := r.unbound.evicting(ctx, r.Engine, k)
	if err != nil {
		return err
	}
	evicted := func(name string) bool {
		return strings.HasPrefix(have[name].Run, evictionPrefix) || slices.Contains(going, name)
	}
	var bound []string
	for name, c := range have {
		if (c.Index >= 0 || c.Tried >= 0) && !evicted(name) {
			bound = append(bound, name)
		}
	}
	slices.Sort(bound)
	want := status.Bindings(slices.DeleteFunc(slices.Clone(picked), evicted), bound)
	if before, ok := r.bindings.Load(k); ok && slices.Equal(before.([]status.Binding), want) {
		return nil
	}
	r.bindings.Store(k, want)
	r.Queues.Bindings.AddPaced(k, bindingsPace)
	return nil
}

// unbound holds the clusters whose bindings [Reconciler.Unbind] deleted, by placement, and the run
// that evicts each. A view that was read just before the eviction does not show that run yet.
type unbound struct {
	mu   sync.Mutex
	runs map[api.Key]map[string]string
}

// drop forgets a placement.
func (u *unbound) drop(k api.Key) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.runs, k)
}

// add records that a run evicts a cluster from a placement.
func (u *unbound) add(k api.Key, cluster, run string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.runs == nil {
		u.runs = map[api.Key]map[string]string{}
	}
	if u.runs[k] == nil {
		u.runs[k] = map[string]string{}
	}
	u.runs[k][cluster] = run
}

// end forgets the eviction of a cluster, unless another run evicts it now.
func (u *unbound) end(k api.Key, cluster, run string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.runs[k][cluster] == run {
		delete(u.runs[k], cluster)
	}
}

// of returns the run that evicts each cluster of a placement.
func (u *unbound) of(k api.Key) map[string]string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.runs[k])
}

// evicting returns the clusters of a placement whose bindings were deleted for an eviction that is
// still running. It forgets evictions that have ended.
func (u *unbound) evicting(ctx context.Context, engine *fleet.Engine, k api.Key) (out []string, err error) {
	for cluster, run := range u.of(k) {
		st, err := engine.Run(run).Status(ctx)
		switch {
		case err == nil && !st.Run.IsEnded():
			out = append(out, cluster)
			continue
		case err != nil && !errors.Is(err, backend.ErrNotFound):
			return nil, err
		}
		u.end(k, cluster, run)
	}
	return out, nil
}

// Unbind deletes the binding of a cluster that a run evicts from a placement. In KubeFleet, the
// binding is already being deleted when the eviction is answered; a drain that lists bindings again
// must find nothing left to evict here, too.
func (r *Reconciler) Unbind(ctx context.Context, k api.Key, cluster, run string) error {
	if r.NoBindings {
		return nil
	}
	r.unbound.add(k, cluster, run)
	if before, ok := r.bindings.Load(k); ok {
		r.bindings.Store(k, slices.DeleteFunc(slices.Clone(before.([]status.Binding)), func(b status.Binding) bool { return b.Cluster == cluster }))
		r.Queues.Bindings.AddPaced(k, bindingsPace)
	}
	err := r.Dynamic.Resource(api.ScopeOf(k).GVR(api.BindingKind)).Delete(ctx, status.BindingName(k.Name, cluster), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
