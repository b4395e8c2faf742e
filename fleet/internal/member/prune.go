package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// pruneAll deletes or releases undesired objects, last applied first. An object that later phases
// may need is removed only once their objects are gone. Nothing is removed before all desired
// objects are there. An object whose deletion fails or is refused holds back only objects that it
// may need.
func (w *work) pruneAll(ctx context.Context) error {
	if len(w.problems) > 0 || w.waiting != "" {
		return w.unblock(ctx)
	}
	phase := snapshot.Admission
	var here, later *target // deleted and not gone yet, in this phase and in later ones
	for _, t := range slices.Backward(w.targets) {
		if t.phase < phase {
			phase, later = t.phase, cmp.Or(later, here)
		}
		if t.want != nil || w.removalPostponed(t) {
			continue
		}
		if later != nil && t.live != nil && !isTerminating(t.live) {
			w.waiting = cmp.Or(w.waiting, later.remains()+"; what it may need goes once it is gone")
			return nil
		}
		remains, err := w.deleteOrRelease(ctx, t)
		if err != nil {
			return err
		}
		if remains {
			here = t
		} else {
			w.served = true
		}
	}
	return nil
}

// deleteOrRelease deletes or releases one object. It reports whether the object still exists,
// because the deletion takes time, fails or is refused.
func (w *work) deleteOrRelease(ctx context.Context, t *target) (bool, error) {
	if !t.unread() {
		err := w.prune(ctx, t)
		switch {
		case err == nil:
			return t.lingers(w.a.Placement), nil
		case errors.Is(err, backend.ErrPermanent):
			w.refused(t, fmt.Errorf("%s: %w", t.id, err))
			return true, nil
		}
		if err := w.ofOne(ctx, err); err != nil {
			return true, err
		}
		w.failed(t, failedCall{err: err})
	}
	w.stumble(t)
	return true, nil
}

// prune deletes or releases one object, and decides again after a conflict.
func (w *work) prune(ctx context.Context, t *target) error {
	if t.live == nil && w.takeover {
		// The older leader may have created it since.
		if err := w.readAgain(ctx, t); err != nil {
			return err
		}
	}
	for range rounds {
		if t.live == nil || isTerminating(t.live) || t.doubted() && !carries(t.live, w.a.Placement) {
			return nil
		}
		err := w.giveUp(ctx, t)
		if errors.Is(err, backend.ErrNotFound) {
			t.live, err = nil, nil
		}
		if err == nil || !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if err := w.readAgain(ctx, t); err != nil {
			return err
		}
	}
	return w.busy(t)
}

// giveUp deletes an object that both the ledger and the object say the placement created. It
// releases other objects, and reports each with the reason.
func (w *work) giveUp(ctx context.Context, t *target) error {
	if w.a.Orphan {
		return w.release(ctx, t)
	}
	reason, err := w.releaseReason(ctx, t)
	if err != nil {
		return err
	}
	if reason != "" {
		return w.releaseFor(ctx, t, reason)
	}
	// The resourceVersion is a precondition, too, because a newer leader that wants the object again
	// does not change its uid.
	err = w.m.delete(ctx, t.id, backend.DeleteOptions{Manager: manager(w.a.Placement), Precondition: t.precondition(), Fence: w.asLed()})
	if err != nil {
		return err
	}
	gone := uidOf(t.live)
	live, err := w.m.get(ctx, t.id)
	if err != nil {
		return err
	}
	if t.live = live; uidOf(live) != gone {
		t.live = nil // another object of that name, which is not ours
	}
	if isNamespace(t.id) && !t.lingers(w.a.Placement) {
		t.live = nil // its controller empties it: that counts as removed
	}
	return nil
}

// releaseReason returns why an undesired object is released and not deleted; "" if it is deleted.
func (s *session) releaseReason(ctx context.Context, t *target) (reason string, err error) {
	if others := otherPlacements(t.live, s.a.Placement); len(others) > 0 {
		return "placement " + others[0] + " applies it, too", nil
	}
	switch {
	case !t.adopted:
		return "", nil
	case !s.takenOver(t):
		return s.unproven(), nil
	case cmp.Or(s.a.DeletePolicy, placement.DeleteCreated) == placement.DeleteCreated:
		return "it was there before, and the placement deletes only what it created", nil
	case len(t.live.GetOwnerReferences()) > 0:
		return "it was there before, and " + ownerOf(t.live) + " owns it", nil
	case !isNamespace(t.id):
		return "", nil
	}
	return s.occupied(ctx, t.id.Name)
}

// takenOver reports whether the ledger and the object both say that the placement took the object
// over. It is false for an object in a reserved namespace.
func (s *session) takenOver(t *target) bool {
	return t.listed() && carries(t.live, s.a.Placement) && !s.u.rules.Reserves(t.id)
}

func ownerOf(obj *unstructured.Unstructured) string {
	owner := obj.GetOwnerReferences()[0]
	return guard.Clip(owner.Kind + " " + owner.Name)
}

// releaseFor releases an object and records the reason for the report.
func (w *work) releaseFor(ctx context.Context, t *target, reason string) error {
	err := w.release(ctx, t)
	if err == nil && t.listed() && !t.disowned {
		w.released = append(w.released, releasedObject{t.id, reason})
	}
	return err
}

// release removes only the placement's marks and field ownership from an object. An object without
// marks and owned fields is not written, because only the ledger lists it.
func (w *work) release(ctx context.Context, t *target) error {
	if !bears(t.live, w.a.Placement) {
		t.live = nil
		return nil
	}
	err := w.m.delete(ctx, t.id, backend.DeleteOptions{
		Manager: manager(w.a.Placement), Release: true, Marks: marksOf(t.live, w.a.Placement), Precondition: t.precondition(), Fence: w.asLed(),
	})
	if err == nil {
		t.live = nil
	}
	return err
}

// occupied returns why a namespace that existed before the placement is not deleted; "" if it has
// no objects of others. A namespace whose objects cannot be listed is not deleted either.
func (s *session) occupied(ctx context.Context, namespace string) (reason string, err error) {
	objects, err := s.m.list(ctx, namespace)
	switch {
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, backend.ErrPermanent):
		return "it was there before, and others may have objects in it, which cannot be listed: " + guard.Clip(err.Error()), nil
	case err != nil:
		return "", err
	}
	for _, obj := range objects {
		if s.foreign(obj) {
			return fmt.Sprintf("it was there before, and %s is in it", guard.Clip(snapshot.IDOf(obj).String())), nil
		}
	}
	return "", nil
}

// foreign reports whether an object in a namespace must outlive the placement. It is false for
// objects that the placement placed, objects that are being deleted, objects that Kubernetes puts
// into every namespace, and objects that its controllers create for another object.
func (s *session) foreign(obj *unstructured.Unstructured) bool {
	id := snapshot.IDOf(obj)
	switch {
	case carries(obj, s.a.Placement) || isTerminating(obj):
		return false
	case id.Kind == "Event" || id.Kind == "Endpoints" && id.Group == "":
		return false
	case id.Kind == "ConfigMap" && id.Group == "":
		return id.Name != "kube-root-ca.crt"
	case id.Kind == "ServiceAccount" && id.Group == "":
		return id.Name != "default"
	case id.Kind == "Secret" && id.Group == "" && annotation(obj, "kubernetes.io/service-account.name") == "default":
		return false
	}
	return !slices.ContainsFunc(obj.GetOwnerReferences(), isBuiltinOwner)
}

// isBuiltinOwner reports whether an owner is of a namespaced built-in kind, whose dependents
// Kubernetes deletes with it. If the owner still exists, the list of the namespace has it, too.
func isBuiltinOwner(o metav1.OwnerReference) bool {
	switch o.APIVersion {
	case "apps/v1":
		return slices.Contains([]string{"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}, o.Kind)
	case "batch/v1":
		return slices.Contains([]string{"CronJob", "Job"}, o.Kind)
	case "v1":
		return slices.Contains([]string{"Pod", "ReplicationController", "Service"}, o.Kind)
	}
	return false
}
