package placements

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// startRollingUpdate starts a run of the latest snapshot of a placement with strategy
// RollingUpdate. It starts none if the last such run is for the same snapshot, the same clusters
// and the same apply strategy, because a run keeps the apply strategy that it was created with. If
// that run is under way, it is ended first. While an eviction runs, nothing is started; after it, a
// new run brings the objects back to an evicted cluster that is picked again. created reports
// whether the view lacks the run because it was created just now.
func (r *Reconciler) startRollingUpdate(
	ctx context.Context, k api.Key, obj *unstructured.Unstructured, p fleet.Placement, rollout kubefleet.Rollout, view *fleet.PlacementView, decision placement.Selection,
) (created bool, err error) {
	all := view.Snapshots()
	latest := all[len(all)-1]
	names := view.RunNames()
	number := lastRolling(names)
	r.rolling.Store(rollingName(p.Name, number), k)
	evicted, goesOn, err := evictedSince(ctx, r.Engine, names, rollingName(p.Name, number))
	if err != nil || goesOn {
		return false, err
	}
	u := updates{r.Engine, r.Inventory}
	last, err := u.last(ctx, p.Name, number)
	if err != nil {
		return false, err
	}
	if last != nil && !evicted {
		if is, err := u.isOf(ctx, last, p, latest.Index, decision); is || err != nil {
			return false, err
		}
	}
	items, err := view.Items(ctx, latest.Index)
	if err != nil {
		return false, err
	}
	if err := r.Recheck(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj); err != nil {
		return false, err
	}
	next := fleet.RunSpec{
		Name: rollingName(p.Name, number+1), Owner: p.Owner, Placement: p.Name, Index: &latest.Index,
		Strategy: rollout.Strategy(items), Starter: manager, Version: view.Version(),
	}
	if last != nil && !last.Run.IsEnded() {
		if next.Version, err = u.replace(ctx, last.Run.Name, next); err != nil {
			return false, err
		}
	}
	r.rolling.Delete(rollingName(p.Name, number-1))
	r.rolling.Store(next.Name, k)
	_, err = r.Engine.CreateRun(ctx, next)
	return true, err
}

// updates reports whether a rolling update matches its placement, and ends updates.
type updates struct {
	engine    *fleet.Engine
	inventory backend.Inventory
}

// manager is the identity of the hub.
var manager = approval.Identity{Name: api.Manager} //nolint:gochecknoglobals // a constant value

// last returns the rolling update of a placement with a number, or nil if there is none.
func (u updates) last(ctx context.Context, placement string, number int) (*fleet.Status, error) {
	if number == 0 {
		return nil, nil
	}
	last, err := u.engine.Run(rollingName(placement, number)).Status(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil
	}
	return &last, err
}

// isOf reports whether a rolling update is for a snapshot, the picked clusters and the apply
// strategy of the placement, and was not ended for an update that was then never created.
func (u updates) isOf(ctx context.Context, last *fleet.Status, p fleet.Placement, index int, d placement.Selection) (bool, error) {
	if last.Plan.Index != index || last.Plan.Selection != d.Digest {
		return false, nil
	}
	if same, err := u.sameClusters(ctx, last.Plan, d); !same || err != nil {
		return false, err
	}
	if alike, err := u.appliesAlike(ctx, last, p); !alike || err != nil {
		return false, err
	}
	if last.Run.State != stages.Aborted {
		return true, nil
	}
	history, err := u.engine.Run(last.Run.Name).History(ctx, 0)
	return !slices.ContainsFunc(history.Events, func(e stages.Event) bool {
		return e.Type == stages.RunAborted && e.By == manager.Name
	}), err
}

// replace ends a rolling update that is under way, and returns the version of the placement after
// that. A plan that is made later begins with the clusters that the update changed and did not
// prove, so that these count against maxUnavailable. A plan that is made earlier could not know
// them. If the next update cannot be planned, replace returns the reason and ends nothing. Another
// run, such as a rollback, is superseded when the next update is created: its clusters count as of
// that plan.
func (u updates) replace(ctx context.Context, run string, next fleet.RunSpec) (version string, err error) {
	if _, err := u.engine.Preview(ctx, next); err != nil {
		return "", err
	}
	h := u.engine.Run(run)
	err = h.Command(ctx, stages.Command{ID: "replaced", Verb: stages.Abort, By: manager, Message: "a newer update replaces it"})
	if _, ended := errors.AsType[*stages.RefusedError](err); err != nil && !ended {
		return "", err
	}
	brief, cancel := context.WithTimeout(ctx, replaceWait)
	defer cancel()
	switch _, err := h.Wait(brief); {
	case err == nil || errors.Is(err, backend.ErrNotFound):
	case ctx.Err() == nil && brief.Err() != nil:
		return "", fmt.Errorf("run %s is still ending: %w", run, backend.ErrConflict)
	default:
		return "", err
	}
	view, err := u.engine.Placement(next.Placement).View(ctx)
	if err != nil {
		return "", err
	}
	return view.Version(), nil
}

// replaceWait is how long a round waits for the end of an update that it replaces. Usually that
// takes milliseconds. If it takes longer, the end of the run starts another round.
const replaceWait = 300 * time.Millisecond

// sameClusters reports whether the picked clusters have the UIDs of the plan, so that none was
// registered again under the same name since.
func (u updates) sameClusters(ctx context.Context, p *stages.Plan, d placement.Selection) (bool, error) {
	planned := make(map[string]string, len(p.Clusters))
	for i := range p.Clusters {
		planned[p.Clusters[i].Name] = p.Clusters[i].UID
	}
	for c, err := range u.inventory.Clusters(ctx) {
		if err != nil {
			return false, err
		}
		if uid, ok := planned[c.Name]; ok && uid != c.UID {
			if _, picked := slices.BinarySearch(d.Clusters, c.Name); picked {
				return false, nil
			}
		}
	}
	return true, nil
}

// appliesAlike reports whether a run has the apply strategy of the placement. If the engine has
// another declaration than the object, for example because a host changed it, the run is also
// compared with that declaration: a new run would have the same strategy, so none is started.
func (u updates) appliesAlike(ctx context.Context, last *fleet.Status, p fleet.Placement) (bool, error) {
	alike := func(p *fleet.Placement) bool {
		return last.AllowCoOwnership == p.AllowCoOwnership && last.Apply.Equal(p.ApplyStrategy)
	}
	if alike(&p) {
		return true, nil
	}
	declared, err := u.engine.Placement(p.Name).Get(ctx)
	return alike(&declared), err
}

// rollingName returns the engine name of the nth run that a placement started itself. Because of
// [kubefleet.EngineName], no object has such a name.
func rollingName(name string, n int) string {
	const longest = 63
	numbered := rollingPrefix + strconv.Itoa(n) + "."
	if len(numbered)+len(name) <= longest {
		return numbered + name
	}
	return numbered + snapshot.Digest([]byte(name))[:32]
}

const rollingPrefix = "r."

// lastRolling returns the number of the last run that a placement started itself, or 0 if there is
// none.
func lastRolling(names []string) int {
	last := 0
	for _, run := range names {
		if rest, ok := strings.CutPrefix(run, rollingPrefix); ok {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil {
				last = max(last, n)
			}
		}
	}
	return last
}

// PlacementsOf returns the keys of the placements that an engine run rolls out. The hub may have
// started the run itself, or run objects may have requested it.
func (r *Reconciler) PlacementsOf(run string) []api.Key {
	if k, ok := r.rolling.Load(run); ok {
		return []api.Key{k.(api.Key)}
	}
	var out []api.Key
	for _, k := range r.ByEngineName(api.RunKind, run) {
		if obj := r.Cached(api.ScopeOf(k).GVR(api.RunKind), k); obj != nil {
			out = append(out, api.Key{Namespace: k.Namespace, Name: api.PlacementOf(obj)})
		}
	}
	return out
}
