// Package evictions reconciles ClusterResourcePlacementEvictions: it answers each once, and has
// the engine carry it out.
package evictions

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/placements"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/stages"
)

// Reconciler answers evictions. It owns their status, and the runs of the engine that carry them
// out.
//
// Reconciler answers one eviction at a time, because the budget depends on the evictions before
// it. It decides on one version of the placement, and the engine records the run by a
// compare-and-swap only if the placement still has that version; otherwise Reconciler decides
// again. The name of the run contains the eviction's UID, and its title is the answer. After that
// Reconciler deletes the binding, and writes the status last: if the hub dies in between, the next
// hub finds the run and writes the same answer.
type Reconciler struct {
	*objects.Client
	Engine     *fleet.Engine
	Queues     *queues.Queues
	Placements *placements.Reconciler
	// Deadline is the time that an unreachable member delays the removal.
	Deadline time.Duration
}

// Reconcile answers an eviction that has no answer yet.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	gvr := api.ClusterScope.GVR(api.EvictionKind)
	obj := r.Object(gvr, k)
	if obj == nil {
		r.Queues.Evictions.Drop(k)
		return 0, nil
	}
	if isAnswered(obj) || obj.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	if err := r.Refresh(ctx, gvr, obj); err != nil { // an answer that was just written may not have been seen
		return 0, err
	}
	if isAnswered(obj) || obj.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	run := placements.EvictionRun(string(obj.GetUID()))
	answer, err := r.answer(ctx, obj, run)
	if err != nil {
		return 0, err
	}
	if answer.Executed && !answer.Removing {
		spec := api.Spec[v1beta1.PlacementEvictionSpec](obj)
		if err := r.Placements.Unbind(ctx, api.Key{Name: spec.PlacementName}, spec.ClusterName, run); err != nil {
			return 0, err
		}
	}
	if err := r.WriteStatus(ctx, gvr, obj, answer.Status(obj.GetGeneration(), time.Now())); err != nil {
		return 0, err
	}
	if answer.Executed {
		r.Recorder.Normal(obj, api.EventEvicted, "%s", answer.Message)
	} else {
		r.Recorder.Warning(obj, api.EventNotEvicted, "%s", answer.Message)
	}
	return 0, nil
}

// isAnswered reports whether an eviction has an answer, as KubeFleet reads it.
func isAnswered(obj *unstructured.Unstructured) bool {
	return api.ConditionOf(obj, api.ConditionValid).Is("False", obj.GetGeneration()) || api.ConditionOf(obj, api.ConditionExecuted).Status != ""
}

// answer judges an eviction and has it carried out. An eviction that has an admitted run was
// judged before. The error matches backend.ErrConflict if the placement changed while the eviction
// was judged.
func (r *Reconciler) answer(ctx context.Context, obj *unstructured.Unstructured, run string) (status.Eviction, error) {
	before, err := r.Engine.Run(run).Status(ctx)
	if err == nil {
		return r.answerOf(ctx, &before)
	}
	if !errors.Is(err, backend.ErrNotFound) {
		return status.Eviction{}, err
	}
	spec := api.Spec[v1beta1.PlacementEvictionSpec](obj)
	k := api.Key{Name: spec.PlacementName}
	placement, err := r.DeclaredNow(ctx, api.ClusterScope.GVR(api.PlacementKind), k)
	if err != nil {
		return status.Eviction{}, err
	}
	facts := &status.EvictionFacts{}
	if placement != nil {
		if facts, err = r.Placements.Evictable(ctx, placement, spec.ClusterName); err != nil {
			return status.Eviction{}, err
		}
		if facts.Budget, err = r.budget(ctx, k.Name); err != nil {
			return status.Eviction{}, err
		}
	}
	answer := status.JudgeEviction(facts)
	if !answer.Carry {
		if placement == nil {
			return answer, nil
		}
		current, err := r.Placements.IsCurrent(ctx, placement, facts)
		if err == nil && !current {
			err = fmt.Errorf("placement %s changed while the eviction was judged: %w", k.Name, backend.ErrConflict)
		}
		return answer, err
	}
	err = r.carryOut(ctx, k, run, facts, &answer)
	if errdef.IsMissing(err, errdef.Cluster) {
		return status.Unevictable(), nil // it has left the fleet, or was cleaned since
	}
	return answer, err
}

// answerOf returns the answer that the run of an eviction records. The engine withdraws a run that
// is recorded but was decided on an outdated placement, so it does not count before it is
// admitted.
func (r *Reconciler) answerOf(ctx context.Context, run *fleet.Status) (status.Eviction, error) {
	admitted, err := r.Placements.IsAdmitted(ctx, run.Run.Placement, run.Run.Name)
	if err == nil && !admitted && !run.Run.IsEnded() {
		err = fmt.Errorf("run %s is not admitted yet: %w", run.Run.Name, backend.ErrConflict)
	}
	return status.CarriedEviction(run.Title), err
}

// budget returns the current disruption budget of a placement, nil if there is none.
func (r *Reconciler) budget(ctx context.Context, name string) (*v1beta1.PlacementDisruptionBudgetSpec, error) {
	obj, err := r.Dynamic.Resource(api.ClusterScope.GVR(api.BudgetKind)).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := &v1beta1.PlacementDisruptionBudgetSpec{}
	return out, api.FromMap(obj, "spec", out)
}

// carryOut has the engine clean the cluster, in a run of its own.
func (r *Reconciler) carryOut(ctx context.Context, k api.Key, run string, facts *status.EvictionFacts, answer *status.Eviction) error {
	name := kubefleet.EngineName(k.Namespace, k.Name)
	declared, err := r.Engine.Placement(name).Get(ctx)
	if err != nil {
		return err
	}
	_, err = r.Engine.CreateRun(ctx, fleet.RunSpec{
		Name: run, Owner: declared.Owner, Title: answer.Message, Placement: name, Starter: approval.Identity{Name: api.Manager},
		Version: facts.Version,
		Strategy: stages.Strategy{
			Name: "eviction", Stages: []stages.Stage{{Name: "none"}},
			Removal: stages.Removal{Only: []string{facts.Cluster}, Deadline: metav1.Duration{Duration: r.Deadline}},
		},
	})
	if err != nil {
		return fmt.Errorf("evicting cluster %s from placement %s: %w", facts.Cluster, k.Name, err)
	}
	return nil
}
