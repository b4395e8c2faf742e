// Package placements reconciles placements. It declares them to the engine, takes snapshots of the
// selected objects, starts the runs of rolling updates, shows snapshots and decisions as objects,
// writes the status, and handles deletions.
package placements

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/overrides"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Reconciler reconciles placements. It owns the status of placements, their finalizer, their
// snapshots and policy snapshots, and the runs of rolling updates.
type Reconciler struct {
	*objects.Client
	Engine    *fleet.Engine
	Inventory backend.Inventory
	Source    *source.Source
	Queues    *queues.Queues
	Overrides *overrides.Reconciler
	Clusters  *objects.Clusters
	// Collect is the time during which changes of selected objects are collected before a snapshot
	// is taken.
	Collect time.Duration
	// DeleteDeadline is the time that an unreachable member may delay a deletion.
	DeleteDeadline time.Duration
	// Listed is the maximum number of clusters that a status lists.
	Listed int
	// NoBindings turns the binding objects off.
	NoBindings bool
	// Setting is the compatibility setting of the hub.
	Setting compat.Setting
	// Reached is called with each cluster that a placement of namespaces has reached or left; may
	// be nil.
	Reached func(cluster string)
	// SourceChanged is called with each placement whose selected objects may have changed; may be
	// nil.
	SourceChanged func(api.Key)

	// Drifts reads the recorded drift for statuses.
	Drifts Drifts

	documents objects.Parsed[placementDocument]
	selected  *selections
	// putPlacements holds the placements that were last put into the engine, by key.
	putPlacements sync.Map
	// rolling maps the name of a run that the hub started itself to the key of its placement.
	rolling sync.Map
	// evaluations holds the evaluations of the clusters that PickN policies picked, by key.
	evaluations sync.Map
	// shownItems holds the items of the last snapshots that were shown, by the engine name of the
	// placement.
	shownItems sync.Map
	// bindings holds the bindings that must be shown, by key.
	bindings sync.Map
	unbound  unbound
	// omitted holds the objects that the last capture of a placement left out, by key.
	omitted sync.Map
	// unplaced holds the messages of the last capture about objects in envelopes that no cluster
	// receives, by key.
	unplaced sync.Map
	// ended holds the UIDs of the placements whose deletions have ended and were recorded, by key.
	ended   sync.Map
	reached reached
}

type placementDocument struct {
	placement fleet.Placement
	rollout   kubefleet.Rollout
}

func readPlacement(obj *unstructured.Unstructured) (out placementDocument, err error) {
	out.placement, out.rollout, err = kubefleet.PlacementOf(obj)
	return out, err
}

// New initializes r and returns it.
func New(r *Reconciler) *Reconciler {
	r.selected, r.reached.began = newSelections(r), time.Now()
	return r
}

// Watch watches the selected objects of all placements until ctx ends, and enqueues a placement
// when one of its objects changes.
func (r *Reconciler) Watch(ctx context.Context) { r.selected.watch(ctx) }

// Reconcile brings the engine and the objects of the hub in line with a placement. It declares the
// placement to the engine, takes a snapshot of the selected objects, decides which clusters are
// picked, starts a rolling update if one is needed, and writes objects and the status. A deleted
// placement is removed from its clusters.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	gvr := api.ScopeOf(k).GVR(api.PlacementKind)
	obj := r.Object(gvr, k)
	switch {
	case obj == nil:
		r.forget(k)
		r.ended.Delete(k)
		r.reached.drop(r.Reached, k)
		return 0, nil
	case obj.GetDeletionTimestamp() != nil:
		r.forget(k)
		return r.deletePlacement(ctx, k, obj)
	}
	p, rollout, err := r.declared(obj)
	if err != nil {
		return 0, r.writeInvalid(ctx, k, obj, err)
	}
	if err := r.EnsureFinalizer(ctx, gvr, obj, api.FinalizerPlacement); err != nil {
		return 0, err
	}
	if err := r.declare(ctx, k, obj, p); err != nil {
		if api.IsRefusal(err) && !errors.Is(err, backend.ErrConflict) {
			err = errors.Join(err, r.writeRefused(ctx, k, obj, err))
		}
		return 0, err
	}
	return r.serve(ctx, k, obj, p, rollout)
}

// writeInvalid writes to the status of a placement why the engine refused it.
func (r *Reconciler) writeInvalid(ctx context.Context, k api.Key, obj *unstructured.Unstructured, err error) error {
	r.Recorder.Warning(obj, api.EventInvalidSelectors, "%v", err)
	return r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj, status.Placement(&status.PlacementFacts{
		Namespace: k.Namespace, Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time,
		Placement: &fleet.Placement{}, Unselected: err, Latest: -1,
	}))
}

// forget drops all state in memory of a placement that is deleted or being deleted.
func (r *Reconciler) forget(k api.Key) {
	r.selected.drop(k)
	r.putPlacements.Delete(k)
	r.evaluations.Delete(k)
	r.omitted.Delete(k)
	r.unplaced.Delete(k)
	r.shownItems.Delete(kubefleet.EngineName(k.Namespace, k.Name))
	r.bindings.Delete(k)
	r.unbound.drop(k)
	r.Overrides.Forget(kubefleet.EngineName(k.Namespace, k.Name))
	r.Queues.Resize(api.PlacementKind, kubefleet.EngineName(k.Namespace, k.Name), 0)
	r.Queues.Placements.Drop(k)
}

// declared returns the placement that an object declares, with the overrides that concern it.
func (r *Reconciler) declared(obj *unstructured.Unstructured) (fleet.Placement, kubefleet.Rollout, error) {
	read, err := r.documents.Of(obj, readPlacement)
	if err != nil {
		return fleet.Placement{}, kubefleet.Rollout{}, err
	}
	p, rollout := read.placement, read.rollout
	p.Owner = string(obj.GetUID())
	// as in KubeFleet
	p.AllowEmpty, p.Exclusive, p.DeletePolicy = true, true, cmp.Or(p.DeletePolicy, placement.DeleteAll)
	p.ReportStatus = rollout.ReportBack == v1beta1.ReportBackDestinationOriginalResource && kubefleet.ReportsToOriginal(p.Policy)
	if rollout.Type == v1beta1.RollingUpdateRolloutStrategyType {
		p.Admission = stages.SupersedeActive
	}
	p.Overrides, err = r.Overrides.Of(p, api.KeyOf(obj))
	return p, rollout, err
}

// declare puts a placement into the engine. If the engine has a placement of that name from an
// earlier object, which was deleted without its finalizer, declare deletes that placement and its
// objects first and returns a conflict.
func (r *Reconciler) declare(ctx context.Context, k api.Key, obj *unstructured.Unstructured, p fleet.Placement) error {
	if before, ok := r.putPlacements.Load(k); ok && reflect.DeepEqual(before, p) {
		return nil
	}
	if err := r.Recheck(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj); err != nil {
		return err
	}
	before, err := r.Engine.Placement(p.Name).Get(ctx)
	switch {
	case err == nil && before.Owner == "":
		return api.Refused(fmt.Errorf("the name is taken: there is a placement %s that no object declared", p.Name))
	case err == nil && before.Owner != p.Owner:
		if err := r.Engine.Placement(p.Name).Delete(ctx, fleet.DeleteOptions{Deadline: metav1.Duration{Duration: r.DeleteDeadline}, Owner: &before.Owner, Force: true}); err != nil {
			return err
		}
		return fmt.Errorf("placement %s of an earlier object, uid %s, is being deleted: %w", p.Name, before.Owner, backend.ErrConflict)
	case err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, errdef.ErrDeleting):
		return err
	}
	if err := checkNamespace(obj, &before, &p); err != nil {
		return err
	}
	if before.Owner != p.Owner { // a new placement; overrides that are older than it must apply
		if err := r.checkOverrides(ctx, k, p); err != nil {
			return err
		}
	}
	err = r.Engine.PutPlacement(ctx, p)
	if errors.Is(err, errdef.ErrDeleting) {
		// the placement that had the name before is still being removed
		return fmt.Errorf("%w: %w", backend.ErrConflict, err)
	}
	if err == nil {
		r.putPlacements.Store(k, p)
		r.enqueueRuns(k)
		r.warnUnreported(obj)
	}
	return err
}

// checkOverrides returns a conflict if the overrides that concern p have changed since p was read.
func (r *Reconciler) checkOverrides(ctx context.Context, k api.Key, p fleet.Placement) error {
	if err := r.Overrides.UpToDate(ctx, p, k); err != nil {
		return err
	}
	now, err := r.Overrides.Of(p, k)
	if err == nil && !reflect.DeepEqual(now, p.Overrides) {
		err = fmt.Errorf("another client changed the overrides of placement %s: %w", k.Name, backend.ErrConflict)
	}
	return err
}

// ReportsBack reports whether a placement asks for the status of its objects to be copied back to
// the original objects, and its policy allows that.
func (r *Reconciler) ReportsBack(obj *unstructured.Unstructured) bool {
	read, err := r.documents.Of(obj, readPlacement)
	return err == nil && read.rollout.ReportBack == v1beta1.ReportBackDestinationOriginalResource && kubefleet.ReportsToOriginal(read.placement.Policy)
}

// Measures reports whether the decisions of a placement depend on the measured properties or the
// namespaces of members.
func Measures(r *Reconciler, obj *unstructured.Unstructured) bool {
	read, err := r.documents.Of(obj, readPlacement)
	return err != nil || obj.GetNamespace() != "" || read.placement.Policy.Measures()
}

// warnUnreported emits an event if a placement asks for the status of its objects and none can be
// copied back. KubeFleet's agents write that to their log.
func (r *Reconciler) warnUnreported(obj *unstructured.Unstructured) {
	read, err := r.documents.Of(obj, readPlacement)
	switch {
	case err != nil || read.rollout.ReportBack == "" || r.ReportsBack(obj):
	case read.rollout.ReportBack == v1beta1.ReportBackDestinationWorkAPI:
		r.Recorder.Warning(obj, api.EventNotReportedBack,
			"reportBackStrategy.destination WorkAPI reports nothing: this hub has no Work objects; OriginalResource writes to the objects that are placed")
	default:
		r.Recorder.Warning(obj, api.EventNotReportedBack, "reportBackStrategy.destination OriginalResource reports nothing: "+
			"it takes a policy of the type PickFixed that names one cluster, or PickN with numberOfClusters 1")
	}
}

// serve captures, decides and rolls out a placement, and writes the results. A step that fails does
// not stop the others: its error is written to the status, and the placement is retried.
func (r *Reconciler) serve(ctx context.Context, k api.Key, obj *unstructured.Unstructured, p fleet.Placement, rollout kubefleet.Rollout) (time.Duration, error) {
	resolved, decided := r.Engine.Placement(p.Name).Resolve(ctx)
	decision := r.selectionOf(k, p.Policy, resolved)
	if errors.Is(decided, backend.ErrNotFound) {
		r.putPlacements.Delete(k) // a host deleted it from the engine
	}
	captured := r.capture(ctx, k, obj, p, rollout)
	problem := errors.Join(decided, captured)
	view, err := r.Engine.Placement(p.Name).View(ctx)
	if err != nil {
		return 0, errors.Join(problem, err)
	}
	if problem == nil && rollout.Type == v1beta1.RollingUpdateRolloutStrategyType && len(view.Snapshots()) > 0 {
		var created bool
		if created, problem = r.startRollingUpdate(ctx, k, obj, p, rollout, view, decision.Selection); created {
			if view, err = r.Engine.Placement(p.Name).View(ctx); err != nil {
				return 0, errors.Join(problem, err)
			}
		}
	}
	if errors.Is(problem, backend.ErrConflict) && r.Queues.Placements.Failures(k) < patience {
		return 0, problem // it is retried at once, so the status need not mention it
	}
	shown := &projection{r.Client, r.Engine}
	if err := shown.snapshots(ctx, k, obj, view); err != nil {
		return 0, errors.Join(problem, err)
	}
	if err := shown.policy(ctx, k, obj, &decision); err != nil {
		return 0, errors.Join(problem, err)
	}
	if err := r.writePlacement(ctx, k, obj, served{p, rollout, &decision, view, problem}); err != nil {
		return 0, errors.Join(problem, err)
	}
	switch {
	case problem != nil && !api.IsRefusal(problem):
		return 0, problem
	case captured != nil:
		return captureAgain, nil //nolint:nilerr // the status reports it, and the next round retries
	}
	return 0, nil
}

// captureAgain is the time before a refused snapshot is retried. A retry is needed because no watch
// reports that a right was granted, or that an envelope was corrected in a namespace that no
// snapshot has selected yet.
const captureAgain = 30 * time.Second

// patience is the number of retries of a conflict before the status mentions it.
const patience = 5

// capture takes a snapshot if the selected objects may have changed since the last one. If only
// runs take the snapshots of an External placement, capture only checks that a snapshot could be
// taken.
func (r *Reconciler) capture(ctx context.Context, k api.Key, obj *unstructured.Unstructured, p fleet.Placement, rollout kubefleet.Rollout) error {
	if !r.selected.take(k, p) {
		return nil
	}
	if r.SourceChanged != nil {
		r.SourceChanged(k)
	}
	if err := r.recallLeftOut(ctx, k, p.Name); err != nil {
		r.selected.mark(k)
		return err
	}
	var taken snapshot.Snapshot
	var items []snapshot.Item
	var err error
	if rollout.Type == v1beta1.ExternalRolloutStrategyType && !r.Setting.Behaviour().SnapshotsOfChanges {
		taken, items, err = r.Engine.Placement(p.Name).PreviewCapture(ctx)
	} else {
		taken, items, err = takeSnapshot(ctx, r.Engine.Placement(p.Name))
	}
	if err != nil {
		r.selected.mark(k)
	} else {
		r.tellLeftOut(k, obj, &taken)
	}
	r.selected.put(k, source.Queries(p.Selectors, items))
	return err
}

// takeSnapshot takes a snapshot if something differs from the latest one, and returns the latest
// snapshot with its items.
func takeSnapshot(ctx context.Context, p fleet.PlacementHandle) (taken snapshot.Snapshot, items []snapshot.Item, err error) {
	if taken, err = p.Capture(ctx); err != nil {
		return taken, nil, err
	}
	view, err := p.View(ctx)
	if err != nil {
		return taken, nil, err
	}
	items, err = view.Items(ctx, taken.Index)
	return taken, items, err
}

// recallLeftOut marks the omissions of the latest snapshot as reported, if this hub has not tried
// to capture the placement yet, because the hub that took the snapshot reported them.
func (r *Reconciler) recallLeftOut(ctx context.Context, k api.Key, name string) error {
	if _, ok := r.omitted.Load(k); ok {
		return nil
	}
	view, err := r.Engine.Placement(name).View(ctx)
	if err != nil {
		return err
	}
	var last snapshot.Snapshot
	if all := view.Snapshots(); len(all) > 0 {
		last = all[len(all)-1]
	}
	r.omitted.Store(k, last.Omitted)
	r.unplaced.Store(k, unplacedTexts(&last))
	return nil
}

// tellLeftOut stores for the status which objects a capture left out. It emits an event for each
// omission that may surprise users, and for each object of an envelope that no cluster receives,
// unless the last capture reported the same.
func (r *Reconciler) tellLeftOut(k api.Key, obj *unstructured.Unstructured, taken *snapshot.Snapshot) {
	before, _ := r.omitted.Swap(k, taken.Omitted)
	last, _ := before.([]snapshot.Omission)
	known, _ := snapshot.OmissionsTold(last)
	told, _ := snapshot.OmissionsTold(taken.Omitted)
	for _, text := range told {
		if !slices.Contains(known, text) {
			r.Recorder.Normal(obj, api.EventLeftOut, "%s", text)
		}
	}
	unplaced := unplacedTexts(taken)
	before, _ = r.unplaced.Swap(k, unplaced)
	known, _ = before.([]string)
	for _, text := range unplaced {
		if !slices.Contains(known, text) {
			r.Recorder.Warning(obj, api.EventLeftOut, "%s", text)
		}
	}
}

// unplacedTexts returns a message about each object of an envelope that no cluster receives.
func unplacedTexts(taken *snapshot.Snapshot) (out []string) {
	for _, u := range taken.Unplaced {
		out = append(out, u.String()+": "+u.Problem())
	}
	return out
}

// deletePlacement removes the placed objects from the clusters. It releases the object when the
// deletion has ended, even if some clusters could not be cleaned.
func (r *Reconciler) deletePlacement(ctx context.Context, k api.Key, obj *unstructured.Unstructured) (time.Duration, error) {
	gvr, name := api.ScopeOf(k).GVR(api.PlacementKind), kubefleet.EngineName(k.Namespace, k.Name)
	p, err := r.Engine.Placement(name).Get(ctx)
	uid := string(obj.GetUID())
	if err == nil && p.Owner == uid {
		err = r.Engine.Placement(name).Delete(ctx, fleet.DeleteOptions{
			Deadline: metav1.Duration{Duration: r.DeleteDeadline}, By: "deletion of " + obj.GetKind(), Policy: deletePolicyOf(obj), Owner: &uid, Force: true,
		})
	}
	if err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, errdef.ErrDeleting) {
		return 0, err
	}
	d, err := r.Engine.Placement(name).Deletion(ctx)
	switch {
	case errors.Is(err, backend.ErrNotFound) || err == nil && d.Owner != uid:
		return 0, r.DropFinalizer(ctx, gvr, obj, api.FinalizerPlacement)
	case err != nil:
		return 0, err
	case d.Ended.IsZero():
		return deletionPoll, r.writeDeletion(ctx, k, obj, d)
	}
	// after a conflict, from a stale cache, and while others have finalizers it comes here again
	if recorded, _ := r.ended.Swap(k, uid); recorded != uid {
		r.recordDeletion(obj, d)
	}
	return 0, r.DropFinalizer(ctx, gvr, obj, api.FinalizerPlacement)
}

// deletePolicyOf returns the delete policy of a placement that is being deleted. It reads only this
// field, because the policy may have been changed just before, and the rest of the spec may be
// invalid.
func deletePolicyOf(obj *unstructured.Unstructured) placement.DeletePolicy {
	text := api.SpecString(obj, "strategy", "deleteStrategy", "propagationPolicy")
	return cmp.Or(placement.DeletePolicy(text), placement.DeleteAll)
}

// deletionPoll is the time between two reads of a deletion's progress.
const deletionPoll = time.Second

// recordDeletion emits events about the outcome of a deletion: the objects that were released, and
// the clusters that may still have some.
func (r *Reconciler) recordDeletion(obj *unstructured.Unstructured, d fleet.Deletion) {
	for _, released := range d.Released {
		r.Recorder.Warning(obj, api.EventReleased, "cluster %s: %s", released.Name, released.Reason)
		r.Log.Warn("released", "placement", d.Placement, "cluster", released.Name, "objects", released.Reason)
	}
	switch {
	case d.Skipped > 0:
	case d.Orphan:
		r.Recorder.Normal(obj, api.EventAbandoned, "left on %d clusters, because deleteStrategy.propagationPolicy is Abandon", d.Done)
		return
	default:
		r.Recorder.Normal(obj, api.EventDeleted, "removed from %d clusters", d.Done)
		return
	}
	for _, skipped := range d.SkippedClusters {
		r.Recorder.Warning(obj, api.EventLeftBehind, "cluster %s: what was placed there may still be there: %s", skipped.Name, skipped.Reason)
		r.Log.Warn("left behind", "placement", d.Placement, "cluster", skipped.Name, "reason", skipped.Reason)
	}
}

// writeDeletion writes the progress of a deletion into the status of the placement and leaves the
// rest of the status unchanged.
func (r *Reconciler) writeDeletion(ctx context.Context, k api.Key, obj *unstructured.Unstructured, d fleet.Deletion) error {
	st, _, _ := unstructured.NestedMap(obj.Object, "status")
	if st == nil {
		st = map[string]any{}
	}
	doing := "removing what was placed: %d of %d clusters are clean"
	if d.Orphan {
		doing = "giving up what was placed, because deleteStrategy.propagationPolicy is Abandon: %d of %d clusters are done"
	}
	told := v1beta1.PlacementDeletionStatus{
		Message:   fmt.Sprintf(doing, d.Done, d.Clusters),
		Remaining: d.Clusters - d.Done - d.Skipped,
	}
	for _, skipped := range d.SkippedClusters[:min(len(d.SkippedClusters), r.Listed)] {
		told.Clusters = append(told.Clusters, v1beta1.ClusterDeletionStatus{ClusterName: skipped.Name, Message: skipped.Reason})
	}
	if err := r.addRemaining(ctx, d, &told); err != nil {
		return err
	}
	m, err := api.ToMap(&told)
	if err != nil {
		return err
	}
	st["deletion"] = m
	return r.WriteStatusMap(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj, st)
}

// addRemaining adds the clusters that were tried and still have objects, each with the reason.
func (r *Reconciler) addRemaining(ctx context.Context, d fleet.Deletion, told *v1beta1.PlacementDeletionStatus) error {
	if d.Run == "" {
		return nil
	}
	st, err := r.Engine.Run(d.Run).Status(ctx)
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	why := map[string]string{}
	for _, f := range st.Run.Form(runstate.Key{}).InFlight {
		why[st.Plan.Clusters[f.Pos].Name] = f.Message
	}
	// a cluster that cannot be reached waits without a slot
	for _, y := range st.Run.Form(runstate.Key{}).Waiting {
		why[st.Plan.Clusters[y.Pos].Name] = y.Message
	}
	for _, name := range slices.Sorted(maps.Keys(why)) {
		if why[name] != "" && len(told.Clusters) < r.Listed {
			told.Clusters = append(told.Clusters, v1beta1.ClusterDeletionStatus{ClusterName: name, Message: why[name]})
		}
	}
	return nil
}

// DeclaredAs returns a conflict if the engine does not have the current declaration of the
// placement. Then the placement or an override has just changed, or an earlier placement of that
// name is still being removed, and a run would be planned from old data.
func (r *Reconciler) DeclaredAs(ctx context.Context, placement *unstructured.Unstructured) error {
	seen, _, err := r.declared(placement)
	if err != nil {
		return api.Refused(err)
	}
	if err := r.Overrides.UpToDate(ctx, seen, api.KeyOf(placement)); err != nil {
		return err
	}
	now, _, err := r.declared(placement) // with the overrides that UpToDate has waited for
	if err != nil {
		return api.Refused(err)
	}
	if have, ok := r.putPlacements.Load(api.KeyOf(placement)); ok && reflect.DeepEqual(have, now) {
		return nil
	}
	return fmt.Errorf("the current placement %s is not declared yet: %w", placement.GetName(), backend.ErrConflict)
}

// enqueueRuns enqueues the runs of a placement that have not begun.
func (r *Reconciler) enqueueRuns(placement api.Key) {
	for _, run := range r.All(api.ScopeOf(placement).GVR(api.RunKind)) {
		if run.GetNamespace() == placement.Namespace && !api.IsBegun(run) && api.PlacementOf(run) == placement.Name {
			r.Queues.Runs.Add(api.KeyOf(run))
		}
	}
}
