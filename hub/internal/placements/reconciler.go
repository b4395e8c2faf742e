// Package placements reconciles placements: it declares them to the engine, has what they select captured, begins the runs
// of rolling updates, shows snapshots and decisions as objects, writes the status, and sees to deletions.
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
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Reconciler brings placements up to date. It owns the status of placements, their finalizer, their snapshots and policy
// snapshots, and the runs that rolling updates begin.
type Reconciler struct {
	*objects.Client
	Engine    *fleet.Engine
	Inventory backend.Inventory
	Source    *source.Source
	Queues    *queues.Queues
	Overrides *overrides.Reconciler
	Clusters  *objects.Clusters
	// Collect is for how long changes of what is selected are collected before a snapshot is taken.
	Collect time.Duration
	// DeleteDeadline is how long a member that cannot be reached holds up a deletion.
	DeleteDeadline time.Duration
	// Listed is how many clusters a status lists.
	Listed int
	// NoBindings leaves out the objects that show bindings.
	NoBindings bool
	// Setting is the compatibility setting of the hub.
	Setting compat.Setting
	// Reached is told of the clusters on which a placement of namespaces was proven to be, or is not any more; nil for none.
	Reached func(cluster string)
	// SourceChanged is told of the placements of which what is selected may have changed; nil for none.
	SourceChanged func(api.Key)

	documents objects.Parsed[placementDocument]
	selected  *selections
	// standing are the placements as the engine has them, by key.
	putPlacements sync.Map
	// rolling tells the placement of a run that the hub started itself, by the
	// run's name.
	rolling sync.Map
	// verdicts are those on the clusters that PickN policies picked, by key.
	evaluations sync.Map
	// shownItems are the items of the snapshots that were shown last, by placement.
	shownItems sync.Map
	// bindings are those that are to be shown, by key.
	bindings sync.Map
	unbound  unbound
	// omitted is what the last capture of a placement left out, by key.
	omitted sync.Map
	// unplaced is what the last capture of a placement said about objects of envelopes that no cluster gets, by key.
	unplaced sync.Map
	// began is since when the reconciler is there.
	began time.Time
	// proven are the clusters that placements were last seen to be on, by key, where Reached is to be told.
	proven sync.Map
}

type placementDocument struct {
	placement fleet.Placement
	rollout   kubefleet.Rollout
}

func readPlacement(obj *unstructured.Unstructured) (out placementDocument, err error) {
	out.placement, out.rollout, err = kubefleet.PlacementOf(obj)
	return out, err
}

// New returns the reconciler that r is, which is not used otherwise.
func New(r *Reconciler) *Reconciler {
	r.selected, r.began = newSelections(r), time.Now()
	return r
}

// Watch watches what placements select until ctx ends, and adds those of which something has changed.
func (r *Reconciler) Watch(ctx context.Context) { r.selected.watch(ctx) }

// Reconcile brings a placement up to date: the engine has it as it is
// declared, what is selected is in a snapshot, which clusters are picked is
// decided, a rolling update is on its way, and all of that stands in objects and
// in the status.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	gvr := api.ScopeOf(k).GVR(api.PlacementKind)
	obj := r.Object(gvr, k)
	switch {
	case obj == nil:
		r.forget(k)
		r.tellGone(k)
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

// writeInvalid says in the status of a placement why the engine cannot have it.
func (r *Reconciler) writeInvalid(ctx context.Context, k api.Key, obj *unstructured.Unstructured, err error) error {
	r.Recorder.Warning(obj, api.ReasonInvalidSelectors, "%v", err)
	return r.WriteStatus(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj, status.Placement(&status.PlacementFacts{
		Namespace: k.Namespace, Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time,
		Placement: &fleet.Placement{}, Unselected: err, Latest: -1,
	}))
}

// forget drops what is kept of a placement that is going or gone.
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

// declared is the placement that an object declares, with the overrides that
// concern it.
func (r *Reconciler) declared(obj *unstructured.Unstructured) (fleet.Placement, kubefleet.Rollout, error) {
	read, err := r.documents.Of(obj, readPlacement)
	if err != nil {
		return fleet.Placement{}, kubefleet.Rollout{}, err
	}
	p, rollout := read.placement, read.rollout
	p.Owner = string(obj.GetUID())
	p.AllowEmpty, p.Exclusive, p.DeletePolicy = true, true, cmp.Or(p.DeletePolicy, placement.DeleteAll) // as in KubeFleet
	p.ReportStatus = rollout.ReportBack == kubefleet.OriginalResource && kubefleet.ReportsToOriginal(p.Policy)
	if rollout.Type == kubefleet.RollingUpdate {
		p.Admission = stages.SupersedeActive
	}
	p.Overrides, err = r.Overrides.Of(p, api.KeyOf(obj))
	return p, rollout, err
}

// declare gives the engine a placement. One that another object declared, which
// had the name before and went without its finalizer, is deleted first, and so
// is what it placed.
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
		if err := r.Engine.Placement(p.Name).Delete(ctx, fleet.DeleteOptions{Deadline: r.DeleteDeadline, Owner: &before.Owner}); err != nil {
			return err
		}
		return fmt.Errorf("placement %s of an earlier object, uid %s, is being deleted: %w", p.Name, before.Owner, backend.ErrConflict)
	case err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, errdef.ErrDeleting):
		return err
	}
	if err := checkNamespace(obj, &before, &p); err != nil {
		return err
	}
	if before.Owner != p.Owner { // a new one, to which the overrides apply that were made before it
		if err := r.checkOverrides(ctx, k, p); err != nil {
			return err
		}
	}
	err = r.Engine.PutPlacement(ctx, p)
	if errors.Is(err, errdef.ErrDeleting) {
		return fmt.Errorf("%w: %w", backend.ErrConflict, err) // what had the name before is still being removed
	}
	if err == nil {
		r.putPlacements.Store(k, p)
		r.enqueueRuns(k)
		r.warnUnreported(obj)
	}
	return err
}

// checkOverrides is a conflict if there are others now than those that p has.
func (r *Reconciler) checkOverrides(ctx context.Context, k api.Key, p fleet.Placement) error {
	if err := r.Overrides.UpToDate(ctx, p, k); err != nil {
		return err
	}
	now, err := r.Overrides.Of(p, k)
	if err == nil && !reflect.DeepEqual(now, p.Overrides) {
		err = fmt.Errorf("the overrides of placement %s changed meanwhile: %w", k.Name, backend.ErrConflict)
	}
	return err
}

// ReportsBack reports whether a placement asks for the status of its objects to come back to those that were placed, and its
// policy allows it.
func (r *Reconciler) ReportsBack(obj *unstructured.Unstructured) bool {
	read, err := r.documents.Of(obj, readPlacement)
	return err == nil && read.rollout.ReportBack == kubefleet.OriginalResource && kubefleet.ReportsToOriginal(read.placement.Policy)
}

// Measures reports whether a placement of r depends on the properties or namespaces of members.
func Measures(r *Reconciler, obj *unstructured.Unstructured) bool {
	read, err := r.documents.Of(obj, readPlacement)
	return err != nil || obj.GetNamespace() != "" || read.placement.Policy.Measures()
}

// warnUnreported says of a placement that asks for the status of its objects why none comes back. KubeFleet's agents log it.
func (r *Reconciler) warnUnreported(obj *unstructured.Unstructured) {
	read, err := r.documents.Of(obj, readPlacement)
	switch {
	case err != nil || read.rollout.ReportBack == "" || r.ReportsBack(obj):
	case read.rollout.ReportBack == kubefleet.WorkAPI:
		r.Recorder.Warning(obj, api.EventNotReportedBack,
			"reportBackStrategy.destination WorkAPI reports nothing: this hub has no Work objects; OriginalResource writes to the objects that are placed")
	default:
		r.Recorder.Warning(obj, api.EventNotReportedBack, "reportBackStrategy.destination OriginalResource reports nothing: "+
			"it takes a policy of the type PickFixed that names one cluster, or PickN with numberOfClusters 1")
	}
}

// serve captures, decides and rolls out, and writes what came of it. What fails
// is told in the status and tried again; the rest goes on.
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
	if problem == nil && rollout.Type == kubefleet.RollingUpdate && len(view.Snapshots()) > 0 {
		problem = r.startRollingUpdate(ctx, k, obj, p, rollout, view, decision.Selection)
		if view, err = r.Engine.Placement(p.Name).View(ctx); err != nil { // with the run that was begun
			return 0, errors.Join(problem, err)
		}
	}
	if errors.Is(problem, backend.ErrConflict) && r.Queues.Placements.Failures(k) < patience {
		return 0, problem // it is tried again at once: nothing to tell people of
	}
	if err := r.projectSnapshots(ctx, k, obj, view); err != nil {
		return 0, errors.Join(problem, err)
	}
	if err := r.projectPolicy(ctx, k, obj, &decision); err != nil {
		return 0, errors.Join(problem, err)
	}
	if err := r.writePlacement(ctx, k, obj, served{p, rollout, &decision, view, problem}); err != nil {
		return 0, errors.Join(problem, err)
	}
	switch {
	case problem != nil && !api.IsRefusal(problem):
		return 0, problem
	case captured != nil:
		return captureAgain, nil //nolint:nilerr // the status tells it
	}
	return 0, nil
}

// captureAgain is after what time a snapshot is tried again that was refused: no watch
// tells of a right that is granted, nor of an envelope that is corrected in a namespace
// of which no snapshot says that it is selected.
const captureAgain = 30 * time.Second

// patience is how often a conflict is tried again before a status tells of it.
const patience = 5

// capture takes a snapshot if what is selected may have changed since the last one. If runs alone take those of an External
// placement, it only finds out whether a snapshot can be taken.
func (r *Reconciler) capture(ctx context.Context, k api.Key, obj *unstructured.Unstructured, p fleet.Placement, rollout kubefleet.Rollout) error {
	if !r.selected.take(k, p) {
		return nil
	}
	if r.SourceChanged != nil {
		r.SourceChanged(k)
	}
	var taken snapshot.Snapshot
	var items []snapshot.Item
	var err error
	if rollout.Type == kubefleet.External && !r.Setting.Behaviour().SnapshotsOfChanges {
		taken, items, err = r.Engine.Placement(p.Name).PreviewCapture(ctx)
	} else {
		taken, items, err = r.takeSnapshot(ctx, p.Name)
	}
	if err != nil {
		r.selected.mark(k)
	} else {
		r.tellLeftOut(k, obj, &taken)
	}
	r.selected.put(k, source.Queries(p.Selectors, items))
	return err
}

// takeSnapshot takes a snapshot where something differs from the latest one, and returns it with its items.
func (r *Reconciler) takeSnapshot(ctx context.Context, name string) (taken snapshot.Snapshot, items []snapshot.Item, err error) {
	if taken, err = r.Engine.Placement(name).Capture(ctx); err != nil {
		return taken, nil, err
	}
	view, err := r.Engine.Placement(name).View(ctx)
	if err != nil {
		return taken, nil, err
	}
	items, err = view.Items(ctx, taken.Index)
	return taken, items, err
}

// tellLeftOut remembers what a capture left out for the status, and emits an event for each part that not everybody expects and for
// each object of an envelope that no cluster gets, if that differs from the last capture.
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
	var unplaced []string
	for _, u := range taken.Unplaced {
		unplaced = append(unplaced, u.String()+": "+u.Problem())
	}
	before, _ = r.unplaced.Swap(k, unplaced)
	known, _ = before.([]string)
	for _, text := range unplaced {
		if !slices.Contains(known, text) {
			r.Recorder.Warning(obj, api.EventLeftOut, "%s", text)
		}
	}
}

// deletePlacement removes from the clusters what was placed, and lets the object
// go when that has ended, with or without all of them.
func (r *Reconciler) deletePlacement(ctx context.Context, k api.Key, obj *unstructured.Unstructured) (time.Duration, error) {
	gvr, name := api.ScopeOf(k).GVR(api.PlacementKind), kubefleet.EngineName(k.Namespace, k.Name)
	p, err := r.Engine.Placement(name).Get(ctx)
	uid := string(obj.GetUID())
	if err == nil && p.Owner == uid {
		err = r.Engine.Placement(name).Delete(ctx, fleet.DeleteOptions{
			Deadline: r.DeleteDeadline, By: "deletion of " + obj.GetKind(), Policy: deletePolicyOf(obj), Owner: &uid,
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
	r.recordDeletion(obj, d)
	return 0, r.DropFinalizer(ctx, gvr, obj, api.FinalizerPlacement)
}

// deletePolicyOf is what a placement asks for that is being deleted. It may have been changed just before, and
// the rest of the object need not be valid.
func deletePolicyOf(obj *unstructured.Unstructured) placement.DeletePolicy {
	text, _, _ := unstructured.NestedString(obj.Object, "spec", "strategy", "deleteStrategy", "propagationPolicy")
	return cmp.Or(placement.DeletePolicy(text), placement.DeleteAll)
}

// deletionPoll is how often a deletion is read.
const deletionPoll = time.Second

// recordDeletion says what became of what was placed.
func (r *Reconciler) recordDeletion(obj *unstructured.Unstructured, d fleet.Deletion) {
	for _, released := range d.Released {
		r.Recorder.Warning(obj, "Released", "cluster %s: %s", released.Name, released.Reason)
		r.Log.Warn("released", "placement", d.Placement, "cluster", released.Name, "objects", released.Reason)
	}
	switch {
	case d.Skipped > 0:
	case d.Orphan:
		r.Recorder.Normal(obj, "Abandoned", "left on %d clusters, because deleteStrategy.propagationPolicy is Abandon", d.Done)
		return
	default:
		r.Recorder.Normal(obj, "Deleted", "removed from %d clusters", d.Done)
		return
	}
	for _, left := range d.Left {
		r.Recorder.Warning(obj, "LeftBehind", "cluster %s: what was placed there may still be there: %s", left.Name, left.Reason)
		r.Log.Warn("left behind", "placement", d.Placement, "cluster", left.Name, "reason", left.Reason)
	}
}

// writeDeletion writes how far the deletion of a placement is, beside what its
// status says.
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
	for _, left := range d.Left[:min(len(d.Left), r.Listed)] {
		told.Clusters = append(told.Clusters, v1beta1.ClusterDeletionStatus{ClusterName: left.Name, Message: left.Reason})
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

// addRemaining adds the clusters that are not clean yet although they were tried, and
// why.
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
	for _, y := range st.Run.Form(runstate.Key{}).Waiting { // a cluster that cannot be reached waits without a slot
		why[st.Plan.Clusters[y.Pos].Name] = y.Message
	}
	for _, name := range slices.Sorted(maps.Keys(why)) {
		if why[name] != "" && len(told.Clusters) < r.Listed {
			told.Clusters = append(told.Clusters, v1beta1.ClusterDeletionStatus{ClusterName: name, Message: why[name]})
		}
	}
	return nil
}

// DeclaredAs tells when the engine does not have a placement as it is declared now: it or an override changed just
// before, or what had its name before is still being removed. A run would be planned of that.
func (r *Reconciler) DeclaredAs(ctx context.Context, placement *unstructured.Unstructured) error {
	seen, _, err := r.declared(placement)
	if err != nil {
		return api.Refused(err)
	}
	if err := r.Overrides.UpToDate(ctx, seen, api.KeyOf(placement)); err != nil {
		return err
	}
	now, _, err := r.declared(placement) // with the overrides that were seen by then
	if err != nil {
		return api.Refused(err)
	}
	if have, ok := r.putPlacements.Load(api.KeyOf(placement)); ok && reflect.DeepEqual(have, now) {
		return nil
	}
	return fmt.Errorf("placement %s is not declared yet as it is now: %w", placement.GetName(), backend.ErrConflict)
}

// enqueueRuns asks for the runs of a placement that wait for it.
func (r *Reconciler) enqueueRuns(placement api.Key) {
	for _, run := range r.All(api.ScopeOf(placement).GVR(api.RunKind)) {
		if run.GetNamespace() == placement.Namespace && api.SpecString(run, "placementName") == placement.Name && !api.IsBegun(run) {
			r.Queues.Runs.Add(api.KeyOf(run))
		}
	}
}
