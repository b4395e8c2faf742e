// Package runs reconciles update runs: it begins them, sends them the commands of their specs,
// writes their status and events, shows rollbacks as objects, and deletes runs whose objects are
// gone.
package runs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/metrics"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/overrides"
	"github.com/slipway-dev/slipway/hub/internal/placements"
	"github.com/slipway-dev/slipway/hub/internal/policies"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/requests"
	"github.com/slipway-dev/slipway/hub/internal/seals"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Reconciler reconciles runs. It owns the status of runs and their finalizer, and the objects of
// rollbacks.
type Reconciler struct {
	*objects.Client
	Engine     *fleet.Engine
	Queues     *queues.Queues
	Seals      *seals.Seals
	Policies   *policies.Policies
	Requests   *requests.Requests
	Overrides  *overrides.Reconciler
	Placements *placements.Reconciler
	Meters     *metrics.Meters
	// Listed is the number of clusters that a status lists.
	Listed int
	// Setting is the compatibility setting of the hub.
	Setting compat.Setting

	// histories are the folded events of the runs that have not ended.
	histories histories
	// ended are the UIDs of runs that were reported to have ended without a record, by key.
	ended sync.Map
}

// Reconcile begins or deletes a run, sends it the command of its spec, delivers the answers to
// its requests, and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.ScopeOf(k).GVR(api.RunKind), k)
	switch {
	case obj == nil:
		r.histories.drop(k)
		r.ended.Delete(k)
		r.Queues.Resize(api.RunKind, kubefleet.EngineName(k.Namespace, k.Name), 0)
		return r.orphaned(ctx, k)
	case obj.GetDeletionTimestamp() != nil:
		return 0, r.deleteRun(ctx, k, obj)
	}
	if err := r.EnsureFinalizer(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, api.FinalizerRun); err != nil {
		return 0, err
	}
	name, told := kubefleet.EngineName(k.Namespace, k.Name), observedEvents(obj)
	history := r.histories.of(k)
	news, err := r.Engine.Run(name).History(ctx, history.after(told))
	if errors.Is(err, backend.ErrPermanent) && history.after(told) > 0 {
		*history = runHistory{} // the events read, or the count in the status, belong to another run
		news, err = r.Engine.Run(name).History(ctx, 0)
	}
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return r.begin(ctx, k, obj)
	case err != nil:
		return 0, err
	}
	return r.serve(ctx, k, obj, history, news)
}

// serve brings the object and the run of the engine to the same state. news has the state of the
// run and its events since the last call.
func (r *Reconciler) serve(ctx context.Context, k api.Key, obj *unstructured.Unstructured, history *runHistory, news fleet.History) (time.Duration, error) {
	st := news.Status
	own, err := r.Seals.IsOf(ctx, obj, st)
	switch {
	case err != nil:
		return 0, err
	case !own:
		return 0, r.replaceRun(ctx, k, obj, st)
	}
	if !api.IsBegun(obj) {
		if admitted, err := r.isAdmitted(ctx, &st); err != nil || !admitted {
			return unadmittedAgain, err
		}
	}
	// The outcomes come first, because their readers wait for them. Events and statuses take longer.
	unreported := r.Requests.ReportOutcomes(ctx, k, obj, st)
	again, err := r.show(ctx, k, obj, history, news)
	return again, errors.Join(unreported, err)
}

// show sends the run the command of the spec, delivers the answers to its requests, and writes its
// events and its status.
func (r *Reconciler) show(ctx context.Context, k api.Key, obj *unstructured.Unstructured, history *runHistory, news fleet.History) (time.Duration, error) {
	st := news.Status
	if err := r.Relabel(ctx, obj, &st); err != nil {
		return 0, err
	}
	if err := r.inheritPolicy(ctx, obj, &st); err != nil {
		return 0, err
	}
	facts, err := r.rollbackFactsOf(ctx, obj, &st)
	if err != nil {
		return 0, err
	}
	if history.next == 0 && news.Next == observedEvents(obj) && isFinished(obj) && st.Run.Final(st.Plan) {
		if f := r.factsOf(k, obj, &st, facts); f.RollbackIsTold() {
			return f.RollbackAgain(), nil // the status is up to date
		}
	}
	r.Queues.Resize(api.RunKind, st.Run.Name, st.Plan.Len())
	if err := r.fold(ctx, obj, history, st, news); err != nil {
		return 0, err
	}
	return r.follow(ctx, k, obj, st, history, facts)
}

// unadmittedAgain is the delay until the next look at a run that is recorded but not admitted.
// The hub that creates the run admits it within moments, or deletes it.
const unadmittedAgain = 500 * time.Millisecond

// isAdmitted reports whether the placement knows a run. Until then the hub that recorded the run
// may abandon it, for example after it lost its lease, and the object has no run yet.
func (r *Reconciler) isAdmitted(ctx context.Context, st *fleet.Status) (bool, error) {
	runs, err := r.Engine.Placement(st.Run.Placement).RunNames(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		return false, nil
	}
	return slices.Contains(runs, st.Run.Name), err
}

// isFinished reports whether the status of a run says how it ended, for the current generation.
func isFinished(obj *unstructured.Unstructured) bool {
	c := api.ConditionOf(obj, api.ConditionSucceeded)
	return (c.Status == "True" || c.Status == "False") && c.ObservedGeneration == obj.GetGeneration()
}

// replaceRun deletes the run of an earlier object of the same name that disappeared without its
// finalizer. It touches neither a run that no object declared nor a rollback.
func (r *Reconciler) replaceRun(ctx context.Context, k api.Key, obj *unstructured.Unstructured, st fleet.Status) error {
	gvr := api.ScopeOf(k).GVR(api.RunKind)
	if err := r.Recheck(ctx, gvr, obj); err != nil {
		return err
	}
	if st.Plan.Rollback != nil {
		return r.NameTaken(ctx, k, obj, st)
	}
	if st.Owner == "" {
		err := fmt.Errorf("the name is taken: there is a run %s that no object declared", k.Name)
		return r.WriteStatus(ctx, gvr, obj, status.InitializeFailed(api.ScopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
	}
	r.Recorder.Warning(obj, api.EventRunReplaced, "a run of the same name belonged to another object, uid %s: it is deleted", st.Owner)
	if err := r.Engine.Run(st.Run.Name).Delete(ctx, true); err != nil && !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	r.Queues.Runs.Add(k)
	return nil
}

// begin creates the engine's run of an object, once.
func (r *Reconciler) begin(ctx context.Context, k api.Key, obj *unstructured.Unstructured) (time.Duration, error) {
	if api.IsBegun(obj) {
		return 0, r.reportForgotten(ctx, k, obj)
	}
	if r.isRefused(obj) {
		return 0, r.keepRefused(ctx, k, obj)
	}
	if api.ShowsRun(obj) {
		return 0, r.reportForgotten(ctx, k, obj)
	}
	if api.HasEnded(obj) {
		r.tellEnded(obj)
		return 0, nil
	}
	if err := r.Recheck(ctx, api.ScopeOf(k).GVR(api.RunKind), obj); err != nil {
		return 0, err
	}
	if api.IsBegun(obj) || r.isRefused(obj) || api.HasEnded(obj) {
		return 0, nil // the run began or was refused in the meantime, and the watch reports that
	}
	var st fleet.Status
	spec, err := r.runSpec(ctx, k, obj)
	if err == nil {
		st, err = r.Engine.CreateRun(ctx, spec)
	}
	switch {
	case err == nil:
		return r.serve(ctx, k, obj, r.histories.of(k), fleet.History{UID: st.Run.UID, Status: st})
	case api.IsRefusal(err):
		r.Recorder.Warning(obj, api.EventInitializeFailed, "%v", err)
		return 0, r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, status.InitializeFailed(api.ScopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
	}
	return 0, errors.Join(err, r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, status.Initializing(api.ScopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err)))
}

// isRefused reports whether the run was refused for good. By one compatibility setting a change of
// its spec is a reason to plan it again.
func (r *Reconciler) isRefused(obj *unstructured.Unstructured) bool {
	return api.InitializeFailed(obj) &&
		(r.Setting.Behaviour().RefusedForGood || api.ConditionOf(obj, api.ConditionInitialized).ObservedGeneration == obj.GetGeneration())
}

// keepRefused writes the current generation into the condition of a refused run, because kubectl
// wait ignores a condition of an earlier one.
func (r *Reconciler) keepRefused(ctx context.Context, k api.Key, obj *unstructured.Unstructured) error {
	c := api.ConditionOf(obj, api.ConditionInitialized)
	if c.ObservedGeneration == obj.GetGeneration() {
		return nil
	}
	return r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, status.Refused(obj.GetGeneration(), c))
}

// tellEnded reports once for each object that its run is not begun again.
func (r *Reconciler) tellEnded(obj *unstructured.Unstructured) {
	if before, told := r.ended.Swap(api.KeyOf(obj), obj.GetUID()); told && before == obj.GetUID() {
		return
	}
	c := api.ConditionOf(obj, api.ConditionSucceeded)
	r.Recorder.Normal(obj, api.EventRunNotBegun, "the run is not begun: by its condition Succeeded, %s (%s), it has ended, and this hub has no record of it: "+
		"create another run to roll out again", c.Status, c.Reason)
	r.Log.Info("a run that has ended by its status and has no record is not begun", "run", api.KeyOf(obj).String(), "reason", c.Reason)
}

// reportForgotten writes into the status of a run that the engine's run is gone, unless the
// status says how the run ended.
func (r *Reconciler) reportForgotten(ctx context.Context, k api.Key, obj *unstructured.Unstructured) error {
	if api.ConditionOf(obj, api.ConditionSucceeded).Status != "" {
		return nil
	}
	err := fmt.Errorf("the record of run %s is gone, because its placement was deleted or the run is older than the kept runs: create another run", k.Name)
	return r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, status.Forgotten(api.ScopeOf(k), obj.GetGeneration(), stages.At(obj.GetCreationTimestamp().Time), err))
}

// runSpec returns the engine's spec of a run.
func (r *Reconciler) runSpec(ctx context.Context, k api.Key, obj *unstructured.Unstructured) (fleet.RunSpec, error) {
	run, err := kubefleet.RunOf(obj)
	if err != nil {
		return fleet.RunSpec{}, api.Refused(err)
	}
	run.State = r.stateOf(obj)
	if err := notBegun(run, obj); err != nil {
		return fleet.RunSpec{}, api.Refused(err)
	}
	var starter approval.Identity
	var unvouched error
	var reads sync.WaitGroup
	reads.Go(func() { starter, unvouched = r.Policies.Starter(ctx, obj) })
	spec, err := r.declaredSpec(ctx, k, run)
	reads.Wait()
	if err == nil {
		err = unvouched
	}
	spec.Owner, spec.Starter = string(obj.GetUID()), starter
	return spec, err
}

// declaredSpec returns the engine's spec of a run as the run, its placement and its strategy
// declare it. All objects that the run names are in its namespace.
func (r *Reconciler) declaredSpec(ctx context.Context, k api.Key, run kubefleet.Run) (fleet.RunSpec, error) {
	in := api.ScopeOf(k)
	placement, template, err := r.named(ctx, in, run)
	if err != nil {
		return fleet.RunSpec{}, err
	}
	strategy, err := strategyFor(in, run, template)
	if err := errors.Join(placementProblem(in, run, placement), err); err != nil {
		return fleet.RunSpec{}, api.Refused(err)
	}
	strategy.Requests = r.Setting.Behaviour().Requests
	spec := run.Spec(strategy)
	if err := r.findSnapshot(ctx, &spec); err != nil {
		return fleet.RunSpec{}, err
	}
	if strategy.Rollback != nil {
		spec.Title = api.TitleOf(k)
	}
	return spec, r.Placements.DeclaredAs(ctx, placement)
}

// stateOf returns the state that the spec of a run asks for.
func (r *Reconciler) stateOf(obj *unstructured.Unstructured) v1beta1.State {
	return api.StateOf(obj, r.Setting.Behaviour().State)
}

// snapshotsOf returns the snapshots of a placement that the engine keeps, ascending.
func (r *Reconciler) snapshotsOf(ctx context.Context, placement string) ([]snapshot.Snapshot, error) {
	view, err := r.Engine.Placement(placement).View(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return view.Snapshots(), nil
}

// findSnapshot sets the index of spec to the last of the snapshots that are shown with that
// index: they have the same objects, and the last one has the latest overrides.
func (r *Reconciler) findSnapshot(ctx context.Context, spec *fleet.RunSpec) error {
	if spec.Index == nil {
		return nil
	}
	kept, err := r.snapshotsOf(ctx, spec.Placement)
	if err != nil {
		return err
	}
	var shown []string
	for _, s := range slices.Backward(kept) {
		if s.ObjectsIndex() == *spec.Index {
			spec.Index = &s.Index
			return nil
		}
		shown = append(shown, strconv.Itoa(s.ObjectsIndex()))
	}
	slices.Reverse(shown)
	return api.Refused(fmt.Errorf("no resource snapshot with index %d found for placement %s: those of [%s] are kept",
		*spec.Index, spec.Placement, strings.Join(slices.Compact(shown), ", ")))
}

// notBegun returns an error if the object asks for the rollback of another run, because no run is
// begun for it.
func notBegun(run kubefleet.Run, obj *unstructured.Unstructured) error {
	switch {
	case run.State == v1beta1.StateRollback:
		return errors.New("spec.state Rollback rolls back a run that exists: begin the run with another state")
	case obj.GetLabels()[api.LabelRollbackOf] != "":
		return errors.New("the label " + api.LabelRollbackOf + " is for runs that the hub makes: leave it out, or set spec.state to Rollback in the run to roll back")
	default:
		return nil
	}
}

// named returns the placement and the strategy that a run names, nil if there is none. It asks
// the API server, because a missing object ends a run and the cache may lack an object that was
// just created. The caller must not change them.
func (r *Reconciler) named(ctx context.Context, in api.Scope, run kubefleet.Run) (placement, strategy *unstructured.Unstructured, err error) {
	var noStrategy error
	var reads sync.WaitGroup
	reads.Go(func() {
		strategy, noStrategy = r.DeclaredNow(ctx, in.GVR(api.StrategyKind), api.Key{Namespace: run.Namespace, Name: run.StrategyName})
	})
	placement, err = r.DeclaredNow(ctx, in.GVR(api.PlacementKind), api.Key{Namespace: run.Namespace, Name: run.Placement})
	reads.Wait()
	return placement, strategy, errors.Join(err, noStrategy)
}

// placementProblem returns an error if there can be no run of the placement that a run names.
func placementProblem(in api.Scope, run kubefleet.Run, placement *unstructured.Unstructured) error {
	if placement == nil {
		return fmt.Errorf("parent placement not found: there is no %s %s", in.Kind(api.PlacementKind), run.Placement)
	}
	if rollout := api.RolloutOf(placement); rollout != v1beta1.ExternalRolloutStrategyType {
		return fmt.Errorf("parent placement does not have an external rollout strategy, current strategy: %s", rollout)
	}
	return nil
}

// strategyFor returns the strategy that a run names.
func strategyFor(in api.Scope, run kubefleet.Run, object *unstructured.Unstructured) (stages.Strategy, error) {
	if object == nil {
		return stages.Strategy{}, fmt.Errorf("referenced updateStrategy not found: there is no %s %s", in.Kind(api.StrategyKind), run.StrategyName)
	}
	return kubefleet.StrategyOf(object)
}

// follow sends a run the command of its spec, delivers answers, and writes its status.
func (r *Reconciler) follow(ctx context.Context, k api.Key, obj *unstructured.Unstructured, st fleet.Status, history *runHistory, back status.RollbackFacts) (time.Duration, error) {
	if !api.IsBegun(obj) {
		if err := r.Annotate(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, api.AnnotationRunUID, string(obj.GetUID())+"/"+st.Run.UID); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(r.sendCommand(ctx, obj, st), r.requestRollback(ctx, obj, &st, &back)); err != nil {
		return 0, err
	}
	asked, problem := r.Requests.Reconcile(ctx, k, obj, st)
	if asked.Taken && problem == nil && history.defers(time.Now()) {
		return answeredAgain, nil // the run changes in a moment, and its status is written then
	}
	if !asked.Taken {
		history.answered = time.Time{}
	}
	again, err := r.writeRun(ctx, k, obj, st, history, back, &asked)
	if asked.Again > 0 && (again == 0 || asked.Again < again) {
		again = asked.Again
	}
	return again, errors.Join(problem, err)
}

// answeredAgain is the longest delay until a run is reconciled again after the engine was given
// an answer. answeredLongest limits how long the write of the run's status waits for the engine
// to process the answer.
const (
	answeredAgain   = 500 * time.Millisecond
	answeredLongest = 2 * time.Second
)

// writeRun writes the status of a run. It returns a delay if time alone will change the status.
func (r *Reconciler) writeRun(ctx context.Context, k api.Key, obj *unstructured.Unstructured, st fleet.Status, history *runHistory, back status.RollbackFacts, asked *requests.Result) (time.Duration, error) {
	facts := r.factsOf(k, obj, &st, back)
	facts.Blocked = asked.Blocked
	facts.History, facts.Events = &history.RunHistory, history.next
	var err error
	if facts.Snapshots, err = r.snapshotsOf(ctx, st.Run.Placement); err != nil {
		return 0, err
	}
	if err := r.Overrides.AddTo(ctx, facts); err != nil {
		return 0, err
	}
	if err := r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, status.Run(facts)); err != nil {
		return 0, err
	}
	r.recordRollback(obj, facts)
	if st.Run.Final(st.Plan) && isFinished(obj) && observedEvents(obj) == history.next {
		r.histories.drop(k) // until the object shows the end of the run, the history is read again
	}
	again := facts.RollbackAgain()
	if at := status.ChangesAt(facts); again == 0 && !at.IsZero() {
		again = max(at.Sub(facts.Now), time.Second)
	}
	return again, nil
}

// factsOf returns the facts for the status of a run, without its history.
func (r *Reconciler) factsOf(k api.Key, obj *unstructured.Unstructured, st *fleet.Status, back status.RollbackFacts) *status.RunFacts {
	return &status.RunFacts{
		Made: obj.GetCreationTimestamp().Time,
		Name: k.Name, Namespace: k.Namespace, Generation: obj.GetGeneration(), State: r.stateOf(obj),
		Run: &st.Run, Plan: st.Plan, Policy: st.Selection, Placement: &fleet.Placement{ApplyStrategy: st.Apply},
		Rollback: back, Listed: r.Listed, Setting: r.Setting, Now: time.Now(),
	}
}

// deleteRun deletes the engine's run, which releases its placement, and the run's requests, and
// drops the finalizer of the object. Members keep the objects that the run brought.
func (r *Reconciler) deleteRun(ctx context.Context, k api.Key, obj *unstructured.Unstructured) error {
	name := kubefleet.EngineName(k.Namespace, k.Name)
	st, err := r.Engine.Run(name).Status(ctx)
	own := false
	if err == nil {
		own, err = r.Seals.IsOf(ctx, obj, st)
	}
	if own {
		err = r.Engine.Run(name).Delete(ctx, true)
	}
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	for _, request := range r.Requests.RequestsOf(k) {
		if err := r.deleteRequest(ctx, k, obj, request, &st, own); err != nil {
			return err
		}
	}
	r.histories.drop(k)
	return r.DropFinalizer(ctx, api.ScopeOf(k).GVR(api.RunKind), obj, api.FinalizerRun)
}

// deleteRequest deletes a request with its run, and records the answers in it that no run
// received.
func (r *Reconciler) deleteRequest(ctx context.Context, k api.Key, run, request *unstructured.Unstructured, st *fleet.Status, own bool) error {
	seal, err := r.Seals.ProofOf(ctx, request)
	if err != nil {
		return err
	}
	var taken []approval.Decision
	if seal != nil && own {
		if g := requests.GateAt(st, seal.Binding); g != nil {
			taken = g.Decisions
		}
	}
	err = r.Dynamic.Resource(api.ScopeOf(k).GVR(api.ApprovalKind)).Namespace(k.Namespace).Delete(ctx, request.GetName(), objects.AsRead(request))
	if err == nil {
		r.Requests.RecordUntaken(ctx, run, request, taken, "run "+k.Name+" is deleted")
	}
	return objects.Settled(err)
}

// orphanPace is the shortest time between two checks whether a run without an object is the
// host's own.
const orphanPace = time.Minute

// EnqueueOrphan enqueues the object key of an engine run that has no object, or the run itself if
// its name was cut.
func (r *Reconciler) EnqueueOrphan(run string) {
	if ns, name, ok := kubefleet.ObjectName(run); ok {
		r.Queues.Runs.AddPaced(api.Key{Namespace: ns, Name: name}, orphanPace)
	} else if kubefleet.IsCut(run) {
		r.Queues.Orphans.AddPaced(api.Key{Name: run}, orphanPace)
	}
}

// ReconcileOrphan enqueues the object of a run that only the run's record names.
func (r *Reconciler) ReconcileOrphan(ctx context.Context, run api.Key) (time.Duration, error) {
	st, err := r.Engine.Run(run.Name).Status(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		r.Queues.Orphans.Drop(run)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if k, ok := api.KeyOfStatus(&st); ok {
		r.Queues.Runs.Add(k)
	}
	return 0, nil
}

// orphaned deletes the run of an object that disappeared without its finalizer, because no status
// would show the run's progress. For a rollback it makes the object again.
func (r *Reconciler) orphaned(ctx context.Context, k api.Key) (time.Duration, error) {
	st, err := r.Engine.Run(kubefleet.EngineName(k.Namespace, k.Name)).Status(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		r.Queues.Runs.Drop(k)
		return 0, nil
	}
	if err != nil || st.Owner == "" {
		return 0, err
	}
	_, err = r.Dynamic.Resource(api.ScopeOf(k).GVR(api.RunKind)).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return 0, err // if the object exists, the watch reports it
	}
	if st.Plan.Rollback != nil {
		return r.ShowRollback(ctx, k, st)
	}
	r.Log.Warn("the object of a run went without its finalizer: the run is deleted", "run", k.String(), "uid", st.Owner)
	if err := r.Engine.Run(st.Run.Name).Delete(ctx, true); !errors.Is(err, backend.ErrNotFound) {
		return 0, err
	}
	return 0, nil
}
