package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// appliedResources returns the objects in the status of an AppliedWork, with their UIDs.
func appliedResources(applied *unstructured.Unstructured) (all []target) {
	list, _, _ := unstructured.NestedSlice(applied.Object, "status", "appliedResources")
	for _, one := range list {
		m, ok := one.(map[string]any)
		if !ok {
			continue
		}
		text := func(key string) string {
			s, _ := m[key].(string)
			return s
		}
		t := target{
			gvr: schema.GroupVersionResource{Group: text("group"), Version: text("version"), Resource: text("resource")},
			Key: api.Key{Namespace: text("namespace"), Name: text("name")}, uid: types.UID(text("uid")),
		}
		if t.uid != "" && t.Name != "" && t.gvr.Resource != "" {
			all = append(all, t)
		}
	}
	return all
}

// released returns a function for the changes that remove an owner from an object, and the field
// manager of the agent that wrote the object for this owner. Objects of other owners get no change.
func released(owner types.UID) func(*metav1.PartialObjectMetadata) map[string]any {
	return func(obj *metav1.PartialObjectMetadata) map[string]any {
		isOwner := func(r metav1.OwnerReference) bool { return r.Kind == appliedWorkKind && r.UID == owner }
		left := slices.DeleteFunc(slices.Clone(obj.OwnerReferences), isOwner)
		if len(left) == len(obj.OwnerReferences) {
			return nil
		}
		fields := map[string]any{"ownerReferences": left}
		withoutManagers(fields, obj, func(manager string) bool { return manager == agentManager })
		return fields
	}
}

// releaseMember removes the AppliedWorks of a member and keeps the objects that they own: it first
// removes the owner from each object in an AppliedWork, and then the AppliedWork.
func (m *Migration) releaseMember(ctx context.Context, s *memberSurvey) error {
	for _, applied := range s.applied {
		for _, object := range appliedResources(applied) {
			changed, err := s.cluster.change(ctx, object, released(applied.GetUID()))
			if err != nil {
				return err
			}
			if changed {
				m.done(s.cluster, "%s is no longer owned by AppliedWork %s", object, applied.GetName())
			}
		}
		if err := m.removeAppliedWork(ctx, s.cluster, targetOf(appliedWorkGVR(), applied)); err != nil {
			return err
		}
	}
	return nil
}

// removeAppliedWork deletes an AppliedWork so that the garbage collector orphans the remaining
// objects that it owns. There are such objects if the agent was stopped before it wrote their names
// to the status.
func (m *Migration) removeAppliedWork(ctx context.Context, c *cluster, t target) error {
	if _, err := c.change(ctx, t, dropFinalizers); err != nil {
		return err
	}
	deleted, err := c.delete(ctx, t, metav1.DeletePropagationOrphan)
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, m.wait, true, func(ctx context.Context) (bool, error) {
		now, err := c.metadata.Resource(t.gvr).Get(ctx, t.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && now.UID != t.uid, err
	})
	if err != nil {
		return fmt.Errorf("%s: AppliedWork %s is still there: the garbage collector first removes it from the objects that it owns: %w", c.name, t.Name, err)
	}
	if deleted {
		m.done(c, "AppliedWork %s is removed", t.Name)
	}
	return nil
}
