package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/stages"
)

// ShowRollback makes the object of a rollback. It keeps no other state, so a missing object is
// made again.
func (r *Reconciler) ShowRollback(ctx context.Context, k api.Key, st fleet.Status) (time.Duration, error) {
	of := st.Plan.Rollback.Run
	b, err := r.Engine.Run(of).RollbackStatus(ctx)
	switch {
	case err != nil && !errors.Is(err, backend.ErrNotFound):
		return 0, err
	case b.Pending && b.By == st.Run.Name:
		return status.RollbackPoll, nil // the engine may still give it up
	}
	seal, err := r.Seals.OfRollback(ctx, k, st.Run.UID)
	if err != nil {
		return 0, err
	}
	facts := &status.RollbackObjectFacts{Name: k.Name, Namespace: k.Namespace, Of: api.RolledBackShown(&st), Seal: seal, Run: &st.Run, Plan: st.Plan}
	if facts.Snapshots, err = r.snapshotsOf(ctx, st.Plan.Placement); err != nil {
		return 0, err
	}
	facts.Placement = r.objectName(api.PlacementKind, st.Plan.Placement)
	facts.Strategy = r.objectName(api.StrategyKind, st.Plan.Strategy.Name)
	gvr := api.ScopeOf(k).GVR(api.RunKind)
	obj, err := status.RollbackObject(facts)
	if err != nil {
		return 0, err
	}
	_, err = r.Dynamic.Resource(gvr).Namespace(k.Namespace).Create(ctx, obj, metav1.CreateOptions{FieldManager: api.Manager})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) { // the namespace may be gone, or another object there
		return 0, err
	}
	r.enqueueRolledBack(of)
	return 0, nil
}

// objectName returns the name of the object behind a name of the engine, or the engine's name if
// no object can be found.
func (r *Reconciler) objectName(base, engineName string) string {
	if _, name, ok := kubefleet.ObjectName(engineName); ok {
		return name
	}
	for _, k := range r.ByEngineName(base, engineName) {
		return k.Name
	}
	return engineName
}

// enqueueRolledBack enqueues the object of a run that is rolled back.
func (r *Reconciler) enqueueRolledBack(run string) {
	for _, k := range r.ByEngineName(api.RunKind, run) {
		r.Queues.Runs.Add(k)
	}
}

// Relabel restores the label of the object of a rollback. The caller must have checked the seal,
// which alone proves that the object is the hub's.
func (r *Reconciler) Relabel(ctx context.Context, obj *unstructured.Unstructured, st *fleet.Status) error {
	if st.Plan.Rollback == nil {
		return nil
	}
	of := api.RolledBackShown(st)
	if obj.GetLabels()[api.LabelRollbackOf] == of {
		return nil
	}
	gvr := api.ScopeOf(api.KeyOf(obj)).GVR(api.RunKind)
	if err := r.PatchMetadata(ctx, gvr, obj, map[string]any{"labels": map[string]any{api.LabelRollbackOf: of}}); err != nil {
		return err
	}
	return r.Refresh(ctx, gvr, obj)
}

// inheritPolicy sets the index of the policy snapshot of a rollback to the index of the run that it
// rolls back, because that run's plan has its clusters. An index in the status of obj stays,
// because that run may be deleted.
func (r *Reconciler) inheritPolicy(ctx context.Context, obj *unstructured.Unstructured, st *fleet.Status) error {
	b := st.Plan.Rollback
	if b == nil || st.Selection >= 0 {
		return nil
	}
	shown, _, _ := unstructured.NestedString(obj.Object, "status", "policySnapshotIndexUsed")
	if index, err := strconv.ParseUint(shown, 10, 31); err == nil {
		st.Selection = int(index)
		return nil
	}
	of, err := r.Engine.Run(b.Run).Status(ctx)
	if errors.Is(err, backend.ErrNotFound) || err == nil && of.Run.UID != b.UID {
		return nil
	}
	st.Selection = of.Selection
	return err
}

// NameTaken reports in the status of an object that a rollback has its name. If the run has begun
// or was refused, the status stays unchanged.
func (r *Reconciler) NameTaken(ctx context.Context, k api.Key, obj *unstructured.Unstructured, st fleet.Status) error {
	r.enqueueRolledBack(st.Plan.Rollback.Run)
	if api.IsBegun(obj) || r.isRefused(obj) {
		return nil
	}
	err := fmt.Errorf("the name is taken: the updateRun that rolls back updateRun %s has it; choose another name", api.RolledBackShown(&st))
	r.Recorder.Warning(obj, api.EventInitializeFailed, "%v", err)
	gvr := api.ScopeOf(k).GVR(api.RunKind)
	return r.WriteStatus(ctx, gvr, obj, status.InitializeFailed(api.ScopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
}

// rollbackFactsOf asks the engine for the rollback of a run, if its strategy allows rollbacks.
func (r *Reconciler) rollbackFactsOf(ctx context.Context, obj *unstructured.Unstructured, st *fleet.Status) (status.RollbackFacts, error) {
	var out status.RollbackFacts
	out.Read(obj)
	if st.Plan.Strategy.Rollback == nil {
		return out, nil
	}
	var err error
	out.Engine, err = r.Engine.Run(st.Run.Name).RollbackStatus(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		err = nil // the run was just deleted, and the watch reports that
	}
	if err == nil && out.Engine.By != "" {
		out.Hidden, err = r.hidden(ctx, api.KeyOf(obj), out.Engine.By)
	}
	return out, err
}

// hidden returns the reason why a rollback of an object's run has no object itself, or "".
func (r *Reconciler) hidden(ctx context.Context, of api.Key, run string) (string, error) {
	k, ok := api.RollbackKey(of, run)
	if !ok {
		return ", which is not shown as an object because its name was cut: the engine tells of it", nil
	}
	obj := r.Cached(api.ScopeOf(k).GVR(api.RunKind), k)
	if obj == nil {
		return "", nil
	}
	own := false
	st, err := r.Engine.Run(run).Status(ctx)
	switch {
	case err == nil:
		own, err = r.Seals.IsOf(ctx, obj, st)
	case errors.Is(err, backend.ErrNotFound): // it is not recorded yet, or not any more
		own, err = obj.GetLabels()[api.LabelRollbackOf] == of.Name, nil
	}
	if err != nil || own {
		return "", err
	}
	return ", which is not shown as an object because there is another one of that name: delete that to see it", nil
}

// requestRollback asks the engine to roll a run back, if its spec says so, and notes why the
// engine refuses.
func (r *Reconciler) requestRollback(ctx context.Context, obj *unstructured.Unstructured, st *fleet.Status, facts *status.RollbackFacts) error {
	if !facts.Asks(r.stateOf(obj), obj.GetGeneration(), st) {
		return nil
	}
	if err := r.Recheck(ctx, api.ScopeOf(api.KeyOf(obj)).GVR(api.RunKind), obj); err != nil {
		return err
	}
	if facts.Read(obj); !facts.Asks(r.stateOf(obj), obj.GetGeneration(), st) {
		return nil // it was asked, and the cache does not know yet
	}
	v, err := r.Policies.Now(ctx)
	if err != nil {
		return err
	}
	_, err = r.Engine.Run(st.Run.Name).Rollback(ctx, rollbackOptions(obj, v.VouchesFor(obj)))
	if refused, ok := errors.AsType[*stages.RefusedError](err); ok {
		facts.Refusal = refused.Reason
		return nil
	}
	if err != nil && (api.IsRefusal(err) || errors.Is(err, backend.ErrNotFound)) {
		facts.Refusal = err.Error()
		return nil
	}
	if err == nil {
		facts.Engine, err = r.Engine.Run(st.Run.Name).RollbackStatus(ctx)
	}
	return err
}

// rollbackOptions returns the options of a rollback that the spec of obj asks for. The requester
// is recorded if the API server stamped it.
func rollbackOptions(obj *unstructured.Unstructured, stamped bool) fleet.RollbackOptions {
	out := fleet.RollbackOptions{Reason: fmt.Sprintf("spec.state of generation %d", obj.GetGeneration())}
	if stamped {
		out.By = manifests.Requester(obj)
	}
	return out
}

// recordRollback writes the news about the rollback in the status as Events.
func (r *Reconciler) recordRollback(obj *unstructured.Unstructured, facts *status.RunFacts) {
	if facts.RollbackIsTold() {
		return
	}
	for _, c := range facts.RollbackNow() {
		if c.Status == metav1.ConditionFalse {
			r.Recorder.Warning(obj, api.EventReason(c.Reason), "%s", c.Message)
		} else {
			r.Recorder.Normal(obj, api.EventReason(c.Reason), "%s", c.Message)
		}
	}
}
