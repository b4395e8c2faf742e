package hub

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// annotationRunUID ties a run to the one run of the engine that was made for it:
// it holds the uids of both, once that was admitted. A run that has it is never
// begun again, whatever became of the engine's. In a copy of a run it means nothing.
const annotationRunUID = "slipway.dev/run-uid"

// isBegun reports whether the engine's run of an object was made.
func isBegun(run *unstructured.Unstructured) bool {
	return strings.HasPrefix(run.GetAnnotations()[annotationRunUID], string(run.GetUID())+"/")
}

// syncRun brings a run up to date: it is begun or deleted, is asked what its
// spec says, takes in the answers to its requests, and its status is written.
func (s *service) syncRun(ctx context.Context, k key) (time.Duration, error) {
	obj := s.object(scopeOf(k).gvr(runKind), k)
	switch {
	case obj == nil:
		s.histories.drop(k)
		s.sizes.Delete(sized{runKind, kubefleet.EngineName(k.Namespace, k.Name)})
		return s.orphaned(ctx, k)
	case obj.GetDeletionTimestamp() != nil:
		return 0, s.deleteRun(ctx, k, obj)
	}
	if err := s.ensureFinalizer(ctx, scopeOf(k).gvr(runKind), obj, finalizerRun); err != nil {
		return 0, err
	}
	name, told := kubefleet.EngineName(k.Namespace, k.Name), toldEvents(obj)
	history := s.histories.of(k)
	status, news, err := s.engine.Progress(ctx, name, history.after(told))
	if errors.Is(err, backend.ErrPermanent) && history.after(told) > 0 {
		*history = folded{} // what was read, or stands in the status, is not of this run
		status, news, err = s.engine.Progress(ctx, name, 0)
	}
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return s.begin(ctx, k, obj)
	case err != nil:
		return 0, err
	}
	own, err := s.isOf(ctx, obj, status)
	switch {
	case err != nil:
		return 0, err
	case !own:
		return 0, s.replaceRun(ctx, k, obj, status)
	}
	if !isBegun(obj) {
		if admitted, err := s.isAdmitted(ctx, &status); err != nil || !admitted {
			return unadmittedAgain, err
		}
	}
	if err := s.relabel(ctx, obj, &status); err != nil {
		return 0, err
	}
	facts, err := s.rollbackFactsOf(ctx, obj, &status)
	if err != nil {
		return 0, err
	}
	if history.next == 0 && news.Next == told && isFinished(obj) && status.Run.Final(status.Plan) {
		if f := s.factsOf(k, obj, &status, facts); f.rollbackIsTold() {
			return f.rollbackAgain(), nil // as it was told
		}
	}
	s.sizes.Store(sized{runKind, name}, status.Plan.Len())
	if err := s.fold(ctx, obj, history, status, news); err != nil {
		return 0, err
	}
	return s.follow(ctx, k, obj, status, history, facts)
}

// unadmittedAgain is when a run is looked at again that was recorded and not admitted:
// whoever is creating it admits it within moments, or takes it back.
const unadmittedAgain = 500 * time.Millisecond

// isAdmitted reports whether the placement knows a run. Until then the hub that recorded it, such as
// a hub that loses its lead meanwhile, may take it back, and the object has none yet.
func (s *service) isAdmitted(ctx context.Context, status *fleet.Status) (bool, error) {
	runs, err := s.engine.Runs(ctx, status.Run.Placement)
	if errors.Is(err, backend.ErrNotFound) {
		return false, nil
	}
	return slices.Contains(runs, status.Run.Name), err
}

// isFinished reports whether the status of a run says how it ended.
func isFinished(obj *unstructured.Unstructured) bool {
	c := conditionOf(obj, conditionSucceeded)
	return (c.Status == "True" || c.Status == "False") && c.ObservedGeneration == obj.GetGeneration()
}

// replaceRun deletes the run of an object that had the name before and went
// without its finalizer. One that no object declared is not touched, nor is one
// that takes another one back.
func (s *service) replaceRun(ctx context.Context, k key, obj *unstructured.Unstructured, status fleet.Status) error {
	gvr := scopeOf(k).gvr(runKind)
	if err := s.asSeen(ctx, gvr, obj); err != nil {
		return err
	}
	if status.Plan.Rollback != nil {
		return s.nameTaken(ctx, k, obj, status)
	}
	if status.Owner == "" {
		err := fmt.Errorf("the name is taken: there is a run %s that no object declared", k.Name)
		return s.writeStatus(ctx, gvr, obj, initializeFailedStatus(scopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
	}
	s.notes.warn(obj, "RunReplaced", "a run of the same name belonged to another object, uid %s: it is deleted", status.Owner)
	if err := s.engine.DeleteRun(ctx, status.Run.Name); err != nil && !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	s.runs.add(k)
	return nil
}

// begin makes the engine's run of an object, once.
func (s *service) begin(ctx context.Context, k key, obj *unstructured.Unstructured) (time.Duration, error) {
	if isBegun(obj) {
		return 0, s.forgotten(ctx, k, obj)
	}
	if initializeFailed(obj) {
		return 0, nil
	}
	if showsRun(obj) {
		return 0, s.forgotten(ctx, k, obj)
	}
	if err := s.asSeen(ctx, scopeOf(k).gvr(runKind), obj); err != nil {
		return 0, err
	}
	if isBegun(obj) || initializeFailed(obj) {
		return 0, nil // it was begun, or refused, and the watch will tell
	}
	spec, err := s.runSpec(ctx, k, obj)
	if err == nil {
		err = s.record(ctx, k, obj, spec)
	}
	switch {
	case err == nil:
		s.runs.add(k)
		return 0, nil
	case isRefusal(err):
		s.notes.warn(obj, reasonInitializeFailed, "%v", err)
		return 0, s.writeStatus(ctx, scopeOf(k).gvr(runKind), obj, initializeFailedStatus(scopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
	}
	return 0, errors.Join(err, s.writeStatus(ctx, scopeOf(k).gvr(runKind), obj, initializingStatus(scopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err)))
}

// record creates the engine's run of an object, unless its requests would have the names of those of another run.
func (s *service) record(ctx context.Context, k key, obj *unstructured.Unstructured, spec fleet.RunSpec) error {
	release, err := s.reserve(ctx, k, obj, &spec.Strategy)
	if err != nil {
		return err
	}
	defer release()
	_, err = s.engine.CreateRun(ctx, spec)
	return err
}

// isRefusal reports whether a run cannot be begun until its object or what it names changes.
func isRefusal(err error) bool {
	var rejected *lifecycle.RejectedError
	var missing *fleet.NotFoundError
	if errors.As(err, &missing) && missing.Kind == "snapshot" {
		return true // an index that there is not
	}
	return errors.As(err, &rejected) || errors.Is(err, backend.ErrPermanent) || isInvalid(err)
}

// initializeFailed reports whether the run was refused as it is; as in KubeFleet that
// is the end of it.
func initializeFailed(obj *unstructured.Unstructured) bool {
	return conditionOf(obj, conditionInitialized).is("False", obj.GetGeneration())
}

// forgotten says in the status of a run that the engine's is gone, where the
// status does not say how it ended.
func (s *service) forgotten(ctx context.Context, k key, obj *unstructured.Unstructured) error {
	if conditionOf(obj, conditionSucceeded).Status != "" {
		return nil
	}
	err := fmt.Errorf("the record of run %s is gone, it was deleted with its placement or is older than what is kept: create another run", k.Name)
	return s.writeStatus(ctx, scopeOf(k).gvr(runKind), obj, forgottenStatus(scopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
}

// runSpec is the run as the engine takes it. Everything it names is in its
// namespace.
func (s *service) runSpec(ctx context.Context, k key, obj *unstructured.Unstructured) (fleet.RunSpec, error) {
	in := scopeOf(k)
	run, err := kubefleet.RunOf(obj)
	if err != nil {
		return fleet.RunSpec{}, refused(err)
	}
	if err := notBegun(run, obj); err != nil {
		return fleet.RunSpec{}, refused(err)
	}
	starter, err := s.starter(ctx, obj)
	if err != nil {
		return fleet.RunSpec{}, err
	}
	placement, template, err := s.named(ctx, in, run)
	if err != nil {
		return fleet.RunSpec{}, err
	}
	strategy, err := strategyFor(in, run, template)
	if err := errors.Join(placementProblem(in, run, placement), err); err != nil {
		return fleet.RunSpec{}, refused(err)
	}
	spec := run.Spec(strategy)
	spec.Owner, spec.Starter = string(obj.GetUID()), starter
	if strategy.Rollback != nil {
		spec.Title = titleOf(k)
	}
	return spec, s.declaredAs(placement)
}

// showsRun tells of an object that the hub made it of a run, or that it is a copy of
// such a one: it orders none.
func showsRun(obj *unstructured.Unstructured) bool { return obj.GetAnnotations()[annotationSeal] != "" }

// notBegun says why no run is begun for an object that asks for something of another
// one.
func notBegun(run kubefleet.Run, obj *unstructured.Unstructured) error {
	switch {
	case run.State == kubefleet.Rollback:
		return errors.New("spec.state Rollback takes back what a run brought: begin the run with another one")
	case obj.GetLabels()[labelRollbackOf] != "":
		return errors.New("the label " + labelRollbackOf + " is for runs that the hub makes: leave it out, or set spec.state of the run to Rollback that is to be taken back")
	default:
		return nil
	}
}

// named are the placement and the strategy that a run names, nil where there is none. They are asked
// for: that something is missing is the end of a run, and the cache may not have yet what was made just
// before it. They are not to be changed.
func (s *service) named(ctx context.Context, in scope, run kubefleet.Run) (placement, strategy *unstructured.Unstructured, err error) {
	if placement, err = s.declaredNow(ctx, in.gvr(placementKind), key{Namespace: run.Namespace, Name: run.Placement}); err != nil {
		return nil, nil, err
	}
	strategy, err = s.declaredNow(ctx, in.gvr(strategyKind), key{Namespace: run.Namespace, Name: run.StrategyName})
	return placement, strategy, err
}

// placementProblem says why there can be no run of the placement that a run names.
func placementProblem(in scope, run kubefleet.Run, placement *unstructured.Unstructured) error {
	if placement == nil {
		return fmt.Errorf("parent placement not found: there is no %s %s", in.kind(placementKind), run.Placement)
	}
	if rollout := rolloutOf(placement); rollout != kubefleet.External {
		return fmt.Errorf("parent placement does not have an external rollout strategy, current strategy: %s", rollout)
	}
	return nil
}

// strategyFor is the strategy that a run names.
func strategyFor(in scope, run kubefleet.Run, object *unstructured.Unstructured) (stages.Strategy, error) {
	if object == nil {
		return stages.Strategy{}, fmt.Errorf("referenced updateStrategy not found: there is no %s %s", in.kind(strategyKind), run.StrategyName)
	}
	return kubefleet.StrategyOf(object)
}

// declaredAs tells when the engine does not have a placement as it is declared now: it changed just
// before, or what had its name before is still being removed. A run would be planned of that.
func (s *service) declaredAs(placement *unstructured.Unstructured) error {
	now, _, err := s.declared(placement)
	if err != nil {
		return refused(err)
	}
	if have, ok := s.standing.Load(keyOf(placement)); ok && reflect.DeepEqual(have, now) {
		return nil
	}
	return fmt.Errorf("placement %s is not declared yet as it is now: %w", placement.GetName(), backend.ErrConflict)
}

// wakeRuns asks for the runs of a placement that wait for it.
func (s *service) wakeRuns(placement key) {
	for _, run := range s.all(scopeOf(placement).gvr(runKind)) {
		if run.GetNamespace() == placement.Namespace && specString(run, "placementName") == placement.Name && !isBegun(run) {
			s.runs.add(keyOf(run))
		}
	}
}

// follow asks a run what its spec says, takes in answers, and writes what became
// of it.
func (s *service) follow(ctx context.Context, k key, obj *unstructured.Unstructured, status fleet.Status, history *folded, back rollbackFacts) (time.Duration, error) {
	if !isBegun(obj) {
		if err := s.annotate(ctx, scopeOf(k).gvr(runKind), obj, annotationRunUID, string(obj.GetUID())+"/"+status.Run.UID); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(s.order(ctx, obj, status), s.orderRollback(ctx, obj, &status, &back)); err != nil {
		return 0, err
	}
	requests, asked := s.syncRequests(ctx, k, obj, status)
	again, err := s.writeRun(ctx, k, obj, status, history, back, requests.held)
	if requests.again > 0 && (again == 0 || requests.again < again) {
		again = requests.again
	}
	return again, errors.Join(asked, err)
}

// writeRun writes what became of a run. It asks to be called again when time
// alone will change that.
func (s *service) writeRun(ctx context.Context, k key, obj *unstructured.Unstructured, status fleet.Status, history *folded, back rollbackFacts, held []heldRequest) (time.Duration, error) {
	facts := s.factsOf(k, obj, &status, back)
	facts.Held = held
	facts.History, facts.Events = &history.runHistory, history.next
	if err := s.addOverrides(ctx, facts); err != nil {
		return 0, err
	}
	if err := s.writeStatus(ctx, scopeOf(k).gvr(runKind), obj, projectRun(facts)); err != nil {
		return 0, err
	}
	s.tellRollback(obj, facts)
	if status.Run.Final(status.Plan) && isFinished(obj) && toldEvents(obj) == history.next {
		s.histories.drop(k) // until the object was seen to tell its end, it is asked for again
	}
	again := facts.rollbackAgain()
	if at := changesAt(facts); again == 0 && !at.IsZero() {
		again = max(at.Sub(facts.Now), time.Second)
	}
	return again, nil
}

// factsOf is what the status of a run is made of, without its history.
func (s *service) factsOf(k key, obj *unstructured.Unstructured, status *fleet.Status, back rollbackFacts) *runFacts {
	return &runFacts{
		Name: k.Name, Namespace: k.Namespace, Generation: obj.GetGeneration(), State: stateOf(obj),
		Run: &status.Run, Plan: status.Plan, Policy: status.Selection, Placement: &fleet.Placement{ApplyStrategy: status.Apply},
		Rollback: back, Listed: s.cfg.Listed, Now: time.Now(),
	}
}

// deleteRun deletes the engine's run, which releases its placement, with the
// requests of it, and lets the object go. What was rolled out stays.
func (s *service) deleteRun(ctx context.Context, k key, obj *unstructured.Unstructured) error {
	name := kubefleet.EngineName(k.Namespace, k.Name)
	status, err := s.engine.Status(ctx, name)
	own := false
	if err == nil {
		own, err = s.isOf(ctx, obj, status)
	}
	if own {
		err = s.engine.DeleteRun(ctx, name)
	}
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	for _, request := range s.requestsOf(k) {
		if err := s.deleteRequest(ctx, k, obj, request, &status, own); err != nil {
			return err
		}
	}
	s.histories.drop(k)
	return s.dropFinalizer(ctx, scopeOf(k).gvr(runKind), obj, finalizerRun)
}

// deleteRequest deletes a request with its run, and tells of the answers in it that were not taken in.
func (s *service) deleteRequest(ctx context.Context, k key, run, request *unstructured.Unstructured, status *fleet.Status, own bool) error {
	seal, err := s.proofOf(ctx, request)
	if err != nil {
		return err
	}
	var taken []approval.Decision
	if seal != nil && own {
		if g := gateAt(status, seal.Binding); g != nil {
			taken = g.Decisions
		}
	}
	err = s.client.Resource(scopeOf(k).gvr(approvalKind)).Namespace(k.Namespace).Delete(ctx, request.GetName(), asRead(request))
	if err == nil {
		s.tellUntaken(ctx, run, request, taken, "run "+k.Name+" is deleted")
	}
	return settled(err)
}

// stateOf is what a run is to do, by its spec.
func stateOf(obj *unstructured.Unstructured) kubefleet.State {
	if state := specString(obj, "state"); state != "" {
		return kubefleet.State(state)
	}
	return kubefleet.RunState
}

// rolloutOf is how a placement says that its changes reach the clusters.
func rolloutOf(placement *unstructured.Unstructured) kubefleet.RolloutType {
	if kind := specString(placement, "strategy", "type"); kind != "" {
		return kubefleet.RolloutType(kind)
	}
	return kubefleet.RollingUpdate
}

// refused makes an error one that cannot be helped by trying again.
func refused(err error) error { return fmt.Errorf("%w%w", err, quiet{backend.ErrPermanent}) }

// quiet is an error that adds nothing to a message.
type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

// isInvalid reports whether what a document says is wrong.
func isInvalid(err error) bool {
	var one *field.Error
	var several utilerrors.Aggregate
	var problems kubefleet.Problems
	return errors.As(err, &one) || errors.As(err, &several) || errors.As(err, &problems)
}
