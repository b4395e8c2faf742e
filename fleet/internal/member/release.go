package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// releases are the objects that an update leaves on the cluster.
type releases []releasedObject

// releasedObject is an object that is left on the cluster, with the reason.
type releasedObject struct {
	id     snapshot.ID
	reason string
}

// text returns a text for people about the objects that are left on the cluster, with
// reasons; "" if there are none.
func (all releases) text() string {
	const most = 3
	var reasons []string
	names := map[string][]string{}
	for _, o := range all {
		if names[o.reason] == nil {
			reasons = append(reasons, o.reason)
		}
		names[o.reason] = append(names[o.reason], guard.Clip(o.id.String()))
	}
	var texts []string
	for _, reason := range reasons[:min(len(reasons), most)] {
		of := names[reason]
		text := strings.Join(of[:min(len(of), most)], ", ")
		if more := len(of) - most; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		texts = append(texts, text+": not deleted: "+reason)
	}
	if more := len(reasons) - most; more > 0 {
		texts = append(texts, fmt.Sprintf("and others for %d more reasons", more))
	}
	return strings.Join(texts, "; ")
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

// deletesAll reports whether the delete policy deletes adopted objects like created ones.
func (s *session) deletesAll() bool {
	return s.a.DeletePolicy == placement.DeleteAll || s.a.DeletePolicy == placement.Abandon
}

// unproven returns the reason for not deleting an object if only the ledger says that the placement
// owns it.
func (s *session) unproven() string {
	return fmt.Sprintf("not now or later, because annotation %s does not say that the placement created it, or its namespace is reserved",
		digestMark+s.a.Placement)
}

func ownerOf(obj *unstructured.Unstructured) string {
	owner := obj.GetOwnerReferences()[0]
	return guard.Clip(owner.Kind + " " + owner.Name)
}

// release removes only the placement's marks and field ownership from an object. An object without
// marks and owned fields is not written, because only the ledger lists it.
func (s *session) release(ctx context.Context, t *target) error {
	if !bears(t.live, s.a.Placement) {
		t.live = nil
		return nil
	}
	err := s.m.delete(ctx, t.id, backend.DeleteOptions{
		Manager: manager(s.a.Placement), Release: true, Marks: marksOf(t.live, s.a.Placement), Precondition: t.precondition(), Fence: s.asLed(),
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
