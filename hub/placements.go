package hub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// syncPlacement brings a placement up to date: the engine has it as it is
// declared, what is selected is in a snapshot, which clusters are picked is
// decided, a rolling update is on its way, and all of that stands in objects and
// in the status.
func (s *service) syncPlacement(ctx context.Context, k key) (time.Duration, error) {
	gvr := scopeOf(k).gvr(placementKind)
	obj := s.object(gvr, k)
	switch {
	case obj == nil:
		s.forget(k)
		return 0, nil
	case obj.GetDeletionTimestamp() != nil:
		s.forget(k)
		return s.deletePlacement(ctx, k, obj)
	}
	p, rollout, err := s.declared(obj)
	if err != nil {
		return 0, s.writeInvalid(ctx, k, obj, err)
	}
	if err := s.ensureFinalizer(ctx, gvr, obj, finalizerPlacement); err != nil {
		return 0, err
	}
	if err := s.declare(ctx, k, obj, p); err != nil {
		if isRefusal(err) && !errors.Is(err, backend.ErrConflict) {
			err = errors.Join(err, s.writeInvalid(ctx, k, obj, err))
		}
		return 0, err
	}
	return s.serve(ctx, k, obj, p, rollout)
}

// writeInvalid says in the status of a placement why the engine cannot have it.
func (s *service) writeInvalid(ctx context.Context, k key, obj *unstructured.Unstructured, err error) error {
	s.notes.warn(obj, reasonInvalidSelectors, "%v", err)
	return s.writeStatus(ctx, scopeOf(k).gvr(placementKind), obj, projectPlacement(&placementFacts{
		Namespace: k.Namespace, Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time,
		Placement: &fleet.Placement{}, Unselected: err, Latest: -1,
	}))
}

// forget drops what is kept of a placement that is going or gone.
func (s *service) forget(k key) {
	s.selected.drop(k)
	s.standing.Delete(k)
	s.verdicts.Delete(k)
	s.frozen.Delete(kubefleet.EngineName(k.Namespace, k.Name))
	s.applicable.Delete(kubefleet.EngineName(k.Namespace, k.Name))
	s.sizes.Delete(sized{placementKind, kubefleet.EngineName(k.Namespace, k.Name)})
	s.placements.drop(k)
}

// declared is the placement that an object declares, with the overrides that
// concern it.
func (s *service) declared(obj *unstructured.Unstructured) (fleet.Placement, kubefleet.Rollout, error) {
	read, err := s.documents.placement(obj)
	if err != nil {
		return fleet.Placement{}, kubefleet.Rollout{}, err
	}
	p, rollout := read.placement, read.rollout
	p.Owner = string(obj.GetUID())
	if rollout.Type == kubefleet.RollingUpdate {
		p.Admission = lifecycle.SupersedeActive
	}
	p.Overrides, err = s.overridesOf(p, keyOf(obj))
	return p, rollout, err
}

// overridesOf are the overrides that concern a placement. One that cannot be read
// could be among them: it keeps back every placement that it may be about.
func (s *service) overridesOf(p fleet.Placement, k key) ([]placement.Override, error) {
	var out []placement.Override
	var wrong []error
	for _, in := range []scope{clusterScope, namespaceScope} {
		for _, object := range s.all(overrideGVR(in)) {
			o, err := s.documents.override(object)
			switch {
			case err != nil && mayConcern(object, p, k):
				wrong = append(wrong, fmt.Errorf("%s %s: %w", object.GetKind(), keyOf(object), err))
			case err == nil && o.Concerns(p):
				out = append(out, o.Override)
			}
		}
	}
	slices.SortFunc(out, func(a, b placement.Override) int { return strings.Compare(a.String(), b.String()) })
	return out, errors.Join(wrong...)
}

// mayConcern reports whether an override which cannot be read could be about a placement.
// One in a namespace is never about a placement in another, nor about one that
// selects nothing there.
func mayConcern(override *unstructured.Unstructured, p fleet.Placement, k key) bool {
	if named := specString(override, "placement", "name"); named != "" && named != k.Name {
		return false
	}
	switch ns := override.GetNamespace(); {
	case ns == "":
		return true
	case k.Namespace == "" && specString(override, "placement", "scope") == "Namespaced":
		return false
	default:
		return snapshot.Reaches(p.Selectors, ns)
	}
}

// declare gives the engine a placement. One that another object declared, which
// had the name before and went without its finalizer, is deleted first, and so
// is what it placed.
func (s *service) declare(ctx context.Context, k key, obj *unstructured.Unstructured, p fleet.Placement) error {
	if before, ok := s.standing.Load(k); ok && reflect.DeepEqual(before, p) {
		return nil
	}
	if err := s.asSeen(ctx, scopeOf(k).gvr(placementKind), obj); err != nil {
		return err
	}
	before, err := s.engine.Placement(ctx, p.Name)
	switch {
	case err == nil && before.Owner == "":
		return refused(fmt.Errorf("the name is taken: there is a placement %s that no object declared", p.Name))
	case err == nil && before.Owner != p.Owner:
		if err := s.engine.DeletePlacement(ctx, p.Name, fleet.DeleteOptions{Deadline: s.cfg.DeleteDeadline}); err != nil {
			return err
		}
		return fmt.Errorf("placement %s of an earlier object, uid %s, is being deleted: %w", p.Name, before.Owner, backend.ErrConflict)
	case err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, fleet.ErrDeleting):
		return err
	}
	err = s.engine.PutPlacement(ctx, p)
	if errors.Is(err, fleet.ErrDeleting) {
		return fmt.Errorf("%w: %w", backend.ErrConflict, err) // what had the name before is still being removed
	}
	if err == nil {
		s.standing.Store(k, p)
		s.wakeRuns(k)
	}
	return err
}

// serve captures, decides and rolls out, and writes what came of it. What fails
// is told in the status and tried again; the rest goes on.
func (s *service) serve(ctx context.Context, k key, obj *unstructured.Unstructured, p fleet.Placement, rollout kubefleet.Rollout) (time.Duration, error) {
	resolved, decided := s.engine.Resolve(ctx, p.Name)
	decision := s.settle(k, p.Policy, resolved)
	if errors.Is(decided, backend.ErrNotFound) {
		s.standing.Delete(k) // somebody deleted it from the engine
	}
	captured := s.capture(ctx, k, p)
	problem := errors.Join(decided, captured)
	view, err := s.engine.View(ctx, p.Name)
	if err != nil {
		return 0, errors.Join(problem, err)
	}
	if problem == nil && rollout.Type == kubefleet.RollingUpdate && len(view.Snapshots()) > 0 {
		problem = s.roll(ctx, k, obj, p, rollout, view, decision.Selection)
		if view, err = s.engine.View(ctx, p.Name); err != nil { // with the run that was begun
			return 0, errors.Join(problem, err)
		}
	}
	if errors.Is(problem, backend.ErrConflict) && s.placements.queue.NumRequeues(k) < patience {
		return 0, problem // it is tried again at once: nothing to tell people of
	}
	if err := s.projectSnapshots(ctx, k, obj, view); err != nil {
		return 0, errors.Join(problem, err)
	}
	if err := s.projectPolicy(ctx, k, obj, &decision); err != nil {
		return 0, errors.Join(problem, err)
	}
	if err := s.writePlacement(ctx, k, obj, served{p, rollout, &decision, view, problem}); err != nil {
		return 0, errors.Join(problem, err)
	}
	switch {
	case problem != nil && !isRefusal(problem):
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

// capture takes a snapshot where what is selected may have changed since the last one.
func (s *service) capture(ctx context.Context, k key, p fleet.Placement) error {
	if !s.selected.take(k, p) {
		return nil
	}
	var items []snapshot.Item
	var view *fleet.PlacementView
	taken, err := s.engine.Capture(ctx, p.Name)
	if err == nil {
		view, err = s.engine.View(ctx, p.Name)
	}
	if err == nil {
		items, err = view.Items(ctx, taken.Index)
	}
	if err != nil {
		s.selected.mark(k)
	}
	s.selected.put(k, source.Queries(p.Selectors, items))
	return err
}

// deletePlacement removes from the clusters what was placed, and lets the object
// go when that has ended, with or without all of them.
func (s *service) deletePlacement(ctx context.Context, k key, obj *unstructured.Unstructured) (time.Duration, error) {
	gvr, name := scopeOf(k).gvr(placementKind), kubefleet.EngineName(k.Namespace, k.Name)
	p, err := s.engine.Placement(ctx, name)
	if err == nil && p.Owner == string(obj.GetUID()) {
		err = s.engine.DeletePlacement(ctx, name, fleet.DeleteOptions{Deadline: s.cfg.DeleteDeadline, By: "deletion of " + obj.GetKind()})
	}
	if err != nil && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, fleet.ErrDeleting) {
		return 0, err
	}
	d, err := s.engine.Deletion(ctx, name)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return 0, s.dropFinalizer(ctx, gvr, obj, finalizerPlacement)
	case err != nil:
		return 0, err
	case d.Ended.IsZero():
		return deletionPoll, s.writeDeletion(ctx, k, obj, d)
	}
	s.tellDeletion(obj, d)
	return 0, s.dropFinalizer(ctx, gvr, obj, finalizerPlacement)
}

// deletionPoll is how often a deletion is looked at.
const deletionPoll = time.Second

// tellDeletion says what became of what was placed.
func (s *service) tellDeletion(obj *unstructured.Unstructured, d fleet.Deletion) {
	if d.Skipped == 0 {
		s.notes.say(obj, "Deleted", "removed from %d clusters", d.Done)
		return
	}
	for _, left := range d.Left {
		s.notes.warn(obj, "LeftBehind", "cluster %s: what was placed there may still be there: %s", left.Name, left.Reason)
		s.log.Warn("left behind", "placement", d.Placement, "cluster", left.Name, "reason", left.Reason)
	}
}

// heardRecord wakes the objects of a kind whose record in the engine changed.
func (s *service) heardRecord(l *loop, base string) func(string) {
	return func(record string) {
		_, name, _ := strings.Cut(record, "/")
		keys := s.called(base, name)
		for _, k := range keys {
			l.addPaced(k, s.paceOf(base, name))
		}
		if base == runKind {
			if len(keys) == 0 {
				s.heardOrphan(name)
			}
			s.heardProgress(name)
		}
	}
}

// heardProgress wakes the placement of a run, not more often than either status needs:
// how many clusters a run has is not known yet when it begins.
func (s *service) heardProgress(run string) {
	for _, k := range s.placementsOf(run) {
		s.placements.addPaced(k, s.paceOfProgress(run, kubefleet.EngineName(k.Namespace, k.Name)))
	}
}

// paceOfProgress is how often the status of a placement is written for what becomes of
// a run.
func (s *service) paceOfProgress(run, placement string) time.Duration {
	return max(2*s.paceOf(runKind, run), s.paceOf(placementKind, placement))
}

// statusPace is how often a status is written at most for what the engine tells:
// at once, and then once in this time. For each cluster of a run, and each that a
// placement lists, clusterPace is added, since a status grows with them, up to
// slowestPace.
const (
	statusPace  = 200 * time.Millisecond
	clusterPace = 10 * time.Millisecond
	slowestPace = 2 * time.Second
)

// sized names a run or a placement, as the engine calls it.
type sized struct{ kind, name string }

// paceOf is how often the status of a run or a placement is written.
func (s *service) paceOf(kind, name string) time.Duration {
	clusters, _ := s.sizes.Load(sized{kind, name})
	n, _ := clusters.(int)
	return min(statusPace+time.Duration(n)*clusterPace, slowestPace)
}

func overrideGVR(in scope) schema.GroupVersionResource { return in.gvr(overrideKind) }

// writeDeletion writes how far the deletion of a placement is, beside what its
// status says.
func (s *service) writeDeletion(ctx context.Context, k key, obj *unstructured.Unstructured, d fleet.Deletion) error {
	status, _, _ := unstructured.NestedMap(obj.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	told := deletionStatus{
		Message:   fmt.Sprintf("removing what was placed: %d of %d clusters are clean", d.Done, d.Clusters),
		Remaining: d.Clusters - d.Done - d.Skipped,
	}
	for _, left := range d.Left[:min(len(d.Left), s.cfg.Listed)] {
		told.Clusters = append(told.Clusters, clusterNote{Name: left.Name, Message: left.Reason})
	}
	if err := s.heldUp(ctx, d, &told); err != nil {
		return err
	}
	m, err := toMap(&told)
	if err != nil {
		return err
	}
	status["deletion"] = m
	return s.writeStatusMap(ctx, scopeOf(k).gvr(placementKind), obj, status)
}

// heldUp adds the clusters that are not clean yet although they were tried, and
// why.
func (s *service) heldUp(ctx context.Context, d fleet.Deletion, told *deletionStatus) error {
	flights, err := s.inFlight(ctx, d.Run)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(flights)) {
		if f := flights[name]; f.Message != "" && len(told.Clusters) < s.cfg.Listed {
			told.Clusters = append(told.Clusters, clusterNote{Name: name, Message: f.Message})
		}
	}
	return nil
}
