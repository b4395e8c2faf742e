package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/stages"
)

// ShowRollback makes the object of a run that takes another one back. Nothing is
// kept of that but the object: one that is missing is made again.
func (r *Reconciler) ShowRollback(ctx context.Context, k api.Key, st fleet.Status) (time.Duration, error) {
	of := st.Plan.Rollback.Run
	b, err := r.Engine.RollbackOf(ctx, of)
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
	facts := &status.RollbackObjectFacts{Name: k.Name, Namespace: k.Namespace, Of: api.UndoneShown(&st), Seal: seal, Run: &st.Run, Plan: st.Plan}
	if facts.Snapshots, err = r.snapshotsOf(ctx, st.Plan.Placement); err != nil {
		return 0, err
	}
	facts.Placement = r.objectName(api.PlacementKind, st.Plan.Placement)
	facts.Strategy = r.objectName(api.StrategyKind, st.Plan.Strategy.Name)
	gvr := api.ScopeOf(k).GVR(api.RunKind)
	_, err = r.Dynamic.Resource(gvr).Namespace(k.Namespace).Create(ctx, status.RollbackObject(facts), metav1.CreateOptions{FieldManager: api.Manager})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) { // the namespace may be gone, or another object there
		return 0, err
	}
	r.enqueueRolledBack(of)
	return 0, nil
}

// objectName is the name of the object that the engine calls so, or what the engine
// calls it where that cannot be told.
func (r *Reconciler) objectName(base, engineName string) string {
	if _, name, ok := kubefleet.ObjectName(engineName); ok {
		return name
	}
	for _, k := range r.ByEngineName(base, engineName) {
		return k.Name
	}
	return engineName
}

// enqueueRolledBack asks for the object of a run that is taken back.
func (r *Reconciler) enqueueRolledBack(run string) {
	for _, k := range r.ByEngineName(api.RunKind, run) {
		r.Queues.Runs.Add(k)
	}
}

// Relabel gives the object of a run that takes another one back its label again.
// Only the seal proves that it is that object, which is checked before.
func (r *Reconciler) Relabel(ctx context.Context, obj *unstructured.Unstructured, st *fleet.Status) error {
	if st.Plan.Rollback == nil {
		return nil
	}
	of := api.UndoneShown(st)
	if obj.GetLabels()[api.LabelRollbackOf] == of {
		return nil
	}
	gvr := api.ScopeOf(api.KeyOf(obj)).GVR(api.RunKind)
	if err := r.PatchMetadata(ctx, gvr, obj, map[string]any{"labels": map[string]any{api.LabelRollbackOf: of}}); err != nil {
		return err
	}
	return r.Refresh(ctx, gvr, obj)
}

// NameTaken says of an object that its name is that of a run which takes another
// one back. One that has been carried out keeps what its status says.
func (r *Reconciler) NameTaken(ctx context.Context, k api.Key, obj *unstructured.Unstructured, st fleet.Status) error {
	r.enqueueRolledBack(st.Plan.Rollback.Run)
	if api.IsBegun(obj) || api.InitializeFailed(obj) {
		return nil
	}
	err := fmt.Errorf("the name is taken: the updateRun that takes back updateRun %s has it; choose another one", api.UndoneShown(&st))
	r.Recorder.Warning(obj, api.ReasonInitializeFailed, "%v", err)
	gvr := api.ScopeOf(k).GVR(api.RunKind)
	return r.WriteStatus(ctx, gvr, obj, status.InitializeFailed(api.ScopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
}

// rollbackFactsOf asks the engine what became of taking a run back, where its
// strategy allows that.
func (r *Reconciler) rollbackFactsOf(ctx context.Context, obj *unstructured.Unstructured, st *fleet.Status) (status.RollbackFacts, error) {
	var out status.RollbackFacts
	out.Read(obj)
	if st.Plan.Strategy.Rollback == nil {
		return out, nil
	}
	var err error
	out.Engine, err = r.Engine.RollbackOf(ctx, st.Run.Name)
	if errors.Is(err, backend.ErrNotFound) {
		err = nil // it was deleted meanwhile, and the watch will tell
	}
	if err == nil && out.Engine.By != "" {
		out.Hidden, err = r.hidden(ctx, api.KeyOf(obj), out.Engine.By)
	}
	return out, err
}

// hidden says why a run that takes back the one of an object has none itself, or "".
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
	st, err := r.Engine.Status(ctx, run)
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

// requestRollback asks the engine to take a run back, where its spec says so, and
// notes why it refuses.
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
	_, err = r.Engine.Rollback(ctx, st.Run.Name, rollbackOptions(obj, v.VouchesFor(obj)))
	if refused, ok := errors.AsType[*stages.RefusedError](err); ok {
		facts.Refusal = refused.Reason
		return nil
	}
	if err != nil && (api.IsRefusal(err) || errors.Is(err, backend.ErrNotFound)) {
		facts.Refusal = err.Error()
		return nil
	}
	if err == nil {
		facts.Engine, err = r.Engine.RollbackOf(ctx, st.Run.Name)
	}
	return err
}

// rollbackOptions are what the object of a run asks for whose spec says Rollback. Who
// does is recorded where the API server stamped it.
func rollbackOptions(obj *unstructured.Unstructured, stamped bool) fleet.RollbackOptions {
	out := fleet.RollbackOptions{Reason: fmt.Sprintf("spec.state of generation %d", obj.GetGeneration())}
	if stamped {
		out.By = manifests.Requester(obj)
	}
	return out
}

// recordRollback writes as an Event what the status says now of taking the run back,
// and did not say before.
func (r *Reconciler) recordRollback(obj *unstructured.Unstructured, facts *status.RunFacts) {
	if facts.RollbackIsTold() {
		return
	}
	for _, c := range facts.RollbackNow() {
		if c.Status == metav1.ConditionFalse {
			r.Recorder.Warning(obj, c.Reason, "%s", c.Message)
		} else {
			r.Recorder.Normal(obj, c.Reason, "%s", c.Message)
		}
	}
}
