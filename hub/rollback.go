package hub

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/stages"
)

// isOf reports whether a run of the engine is that of an object: the one that was made
// for it or, of a run that the engine made to take another one back, the one that
// the object was made for.
func (s *service) isOf(ctx context.Context, obj *unstructured.Unstructured, status fleet.Status) (bool, error) {
	if status.Plan.Rollback == nil {
		return status.Owner == string(obj.GetUID()), nil
	}
	seal, err := s.rollbackSeal(ctx, keyOf(obj), status.Run.UID)
	return err == nil && hmac.Equal([]byte(obj.GetAnnotations()[annotationSeal]), []byte(seal)), err
}

// rollbackSeal is what nobody else can compute for the object of a run that takes
// another one back.
func (s *service) rollbackSeal(ctx context.Context, k key, uid string) (string, error) {
	return s.sealOf(ctx, []any{"rollback", k.Namespace, k.Name, uid})
}

// showRollback makes the object of a run that takes another one back. Nothing is
// kept of that but the object: one that is missing is made again.
func (s *service) showRollback(ctx context.Context, k key, status fleet.Status) (time.Duration, error) {
	of := status.Plan.Rollback.Run
	b, err := s.engine.RollbackOf(ctx, of)
	switch {
	case err != nil && !errors.Is(err, backend.ErrNotFound):
		return 0, err
	case b.Pending && b.By == status.Run.Name:
		return rollbackPoll, nil // the engine may still give it up
	}
	seal, err := s.rollbackSeal(ctx, k, status.Run.UID)
	if err != nil {
		return 0, err
	}
	facts := &rollbackObjectFacts{Name: k.Name, Namespace: k.Namespace, Of: undoneShown(&status), Seal: seal, Run: &status.Run, Plan: status.Plan}
	facts.Placement = s.objectName(placementKind, status.Plan.Placement)
	facts.Strategy = s.objectName(strategyKind, status.Plan.Strategy.Name)
	gvr := scopeOf(k).gvr(runKind)
	_, err = s.client.Resource(gvr).Namespace(k.Namespace).Create(ctx, rollbackObject(facts), metav1.CreateOptions{FieldManager: manager})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) { // the namespace may be gone, or another object there
		return 0, err
	}
	s.wakeUndone(of)
	return 0, nil
}

// rollbackPoll is how often it is looked whether a run that is to be taken back is.
const rollbackPoll = time.Second

// objectName is the name of the object that the engine calls so, or what the engine
// calls it where that cannot be told.
func (s *service) objectName(base, engineName string) string {
	if _, name, ok := kubefleet.ObjectName(engineName); ok {
		return name
	}
	for _, k := range s.called(base, engineName) {
		return k.Name
	}
	return engineName
}

// wakeUndone asks for the object of a run that is taken back.
func (s *service) wakeUndone(run string) {
	for _, k := range s.called(runKind, run) {
		s.runs.add(k)
	}
}

// relabel gives the object of a run that takes another one back its label again.
// Only the seal proves that it is that object, which is looked at before.
func (s *service) relabel(ctx context.Context, obj *unstructured.Unstructured, status *fleet.Status) error {
	if status.Plan.Rollback == nil {
		return nil
	}
	of := undoneShown(status)
	if obj.GetLabels()[labelRollbackOf] == of {
		return nil
	}
	gvr := scopeOf(keyOf(obj)).gvr(runKind)
	if err := s.patchMetadata(ctx, gvr, obj, map[string]any{"labels": map[string]any{labelRollbackOf: of}}); err != nil {
		return err
	}
	return s.reread(ctx, gvr, obj)
}

// nameTaken says of an object that its name is that of a run which takes another
// one back. One that has been carried out keeps what its status says.
func (s *service) nameTaken(ctx context.Context, k key, obj *unstructured.Unstructured, status fleet.Status) error {
	s.wakeUndone(status.Plan.Rollback.Run)
	if isBegun(obj) || initializeFailed(obj) {
		return nil
	}
	err := fmt.Errorf("the name is taken: the updateRun that takes back updateRun %s has it; choose another one", undoneShown(&status))
	s.notes.warn(obj, reasonInitializeFailed, "%v", err)
	gvr := scopeOf(k).gvr(runKind)
	return s.writeStatus(ctx, gvr, obj, initializeFailedStatus(scopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
}

// rollbackFactsOf asks the engine what became of taking a run back, where its
// strategy allows that.
func (s *service) rollbackFactsOf(ctx context.Context, obj *unstructured.Unstructured, status *fleet.Status) (rollbackFacts, error) {
	var out rollbackFacts
	out.read(obj)
	if status.Plan.Strategy.Rollback == nil {
		return out, nil
	}
	var err error
	out.Engine, err = s.engine.RollbackOf(ctx, status.Run.Name)
	if errors.Is(err, backend.ErrNotFound) {
		err = nil // it was deleted meanwhile, and the watch will tell
	}
	if err == nil && out.Engine.By != "" {
		out.Hidden, err = s.hidden(ctx, keyOf(obj), out.Engine.By)
	}
	return out, err
}

// hidden says why a run that takes back the one of an object has none itself, or "".
func (s *service) hidden(ctx context.Context, of key, run string) (string, error) {
	k, ok := rollbackKey(of, run)
	if !ok {
		return ", which is not shown as an object because its name was cut: the engine tells of it", nil
	}
	obj := s.seen(scopeOf(k).gvr(runKind), k)
	if obj == nil {
		return "", nil
	}
	own := false
	status, err := s.engine.Status(ctx, run)
	switch {
	case err == nil:
		own, err = s.isOf(ctx, obj, status)
	case errors.Is(err, backend.ErrNotFound): // it is not recorded yet, or not any more
		own, err = obj.GetLabels()[labelRollbackOf] == of.Name, nil
	}
	if err != nil || own {
		return "", err
	}
	return ", which is not shown as an object because there is another one of that name: delete that to see it", nil
}

// orderRollback asks the engine to take a run back, where its spec says so, and
// notes why it refuses.
func (s *service) orderRollback(ctx context.Context, obj *unstructured.Unstructured, status *fleet.Status, facts *rollbackFacts) error {
	if !facts.asks(stateOf(obj), obj.GetGeneration(), status) {
		return nil
	}
	if err := s.asSeen(ctx, scopeOf(keyOf(obj)).gvr(runKind), obj); err != nil {
		return err
	}
	if facts.read(obj); !facts.asks(stateOf(obj), obj.GetGeneration(), status) {
		return nil // it was asked, and the cache does not know yet
	}
	v, err := s.vouching(ctx)
	if err != nil {
		return err
	}
	_, err = s.engine.Rollback(ctx, status.Run.Name, rollbackOptions(obj, v.vouchesFor(obj)))
	if refused, ok := errors.AsType[*stages.RefusedError](err); ok {
		facts.Refusal = refused.Reason
		return nil
	}
	if err != nil && (isRefusal(err) || errors.Is(err, backend.ErrNotFound)) {
		facts.Refusal = err.Error()
		return nil
	}
	if err == nil {
		facts.Engine, err = s.engine.RollbackOf(ctx, status.Run.Name)
	}
	return err
}

// rollbackOptions are what the object of a run asks for whose spec says Rollback. Who
// does is told where the API server stamped it, and nobody's otherwise.
func rollbackOptions(obj *unstructured.Unstructured, stamped bool) fleet.RollbackOptions {
	out := fleet.RollbackOptions{Reason: fmt.Sprintf("spec.state of generation %d", obj.GetGeneration())}
	if stamped {
		out.By = manifests.Requester(obj)
	}
	return out
}

// tellRollback writes as an Event what the status says now of taking the run back,
// and did not say before.
func (s *service) tellRollback(obj *unstructured.Unstructured, facts *runFacts) {
	if facts.rollbackIsTold() {
		return
	}
	p := projection{runFacts: facts, teller: teller{generation: facts.Generation}}
	for _, c := range p.rollbackConditions() {
		if c.Status == metav1.ConditionFalse {
			s.notes.warn(obj, c.Reason, "%s", c.Message)
		} else {
			s.notes.say(obj, c.Reason, "%s", c.Message)
		}
	}
}
