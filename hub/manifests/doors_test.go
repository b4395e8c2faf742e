package manifests_test

import (
	"encoding/json"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// door is a way to write to the status of an object.
type door struct {
	name string
	// status reports whether the door leads to the status; through other doors the status must not
	// change.
	status bool
	open   func(t *testing.T, c dynamic.ResourceInterface, u *unstructured.Unstructured, status map[string]any) error
}

// doors returns all doors. A new object has no status.
func doors() []door {
	return []door{
		{"merge patch of the status", true, patchDoor(types.MergePatchType, "status")},
		{"JSON patch of the status", true, patchDoor(types.JSONPatchType, "status")},
		{"apply of the status", true, applyDoor("status")},
		{"update of the status", true, updateDoor("status")},
		{"merge patch of the object", false, patchDoor(types.MergePatchType)},
		{"JSON patch of the object", false, patchDoor(types.JSONPatchType)},
		{"apply of the object", false, applyDoor()},
		{"update of the object", false, updateDoor()},
		{"creation with a status", false, createDoor},
	}
}

type openDoor = func(*testing.T, dynamic.ResourceInterface, *unstructured.Unstructured, map[string]any) error

func patchDoor(kind types.PatchType, subresources ...string) openDoor {
	return func(t *testing.T, c dynamic.ResourceInterface, u *unstructured.Unstructured, status map[string]any) error {
		var patch any = map[string]any{"status": status}
		if kind == types.JSONPatchType {
			patch = []any{map[string]any{"op": "add", "path": "/status", "value": status}}
		}
		body, err := json.Marshal(patch)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Patch(t.Context(), u.GetName(), kind, body, metav1.PatchOptions{}, subresources...)
		return err
	}
}

func applyDoor(subresources ...string) openDoor {
	return func(t *testing.T, c dynamic.ResourceInterface, u *unstructured.Unstructured, status map[string]any) error {
		apply := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		apply.SetGroupVersionKind(u.GroupVersionKind())
		apply.SetName(u.GetName())
		o := metav1.ApplyOptions{FieldManager: "root", Force: true}
		if len(subresources) > 0 {
			_, err := c.ApplyStatus(t.Context(), u.GetName(), apply, o)
			return err
		}
		_, err := c.Apply(t.Context(), u.GetName(), apply, o)
		return err
	}
}

func updateDoor(subresources ...string) openDoor {
	return func(t *testing.T, c dynamic.ResourceInterface, u *unstructured.Unstructured, status map[string]any) error {
		u = u.DeepCopy()
		u.Object["status"] = status
		_, err := c.Update(t.Context(), u, metav1.UpdateOptions{}, subresources...)
		return err
	}
}

// createDoor creates another object with a status. The created object must have none, and u does
// not change.
func createDoor(t *testing.T, c dynamic.ResourceInterface, u *unstructured.Unstructured, status map[string]any) error {
	u = u.DeepCopy()
	u.SetName("")
	u.SetResourceVersion("")
	u.SetUID("")
	u.Object["status"] = status
	got, err := c.Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil && !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if err == nil && got.Object["status"] != nil {
		t.Errorf("created with the status %v", got.Object["status"])
	}
	return err
}
