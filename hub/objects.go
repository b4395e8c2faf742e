package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
)

// patchMetadata changes metadata of an object, if it is still the one that obj
// is. A conflict is [backend.ErrConflict]; an object that is gone needs nothing.
func (s *service) patchMetadata(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, fields map[string]any) error {
	_, err := s.patch(ctx, gvr, obj, fields)
	return settled(err)
}

// patch is patchMetadata that returns the object then.
func (s *service) patch(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, fields map[string]any) (*unstructured.Unstructured, error) {
	fields["uid"], fields["resourceVersion"] = string(obj.GetUID()), obj.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return nil, err
	}
	return s.client.Resource(gvr).Namespace(obj.GetNamespace()).Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
}

// become changes metadata of an object, and makes obj what it is then.
func (s *service) become(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, fields map[string]any) error {
	now, err := s.patch(ctx, gvr, obj, fields)
	if apierrors.IsNotFound(err) {
		return goneMeanwhile(obj)
	}
	if err != nil {
		return settled(err)
	}
	*obj = *now
	return nil
}

func goneMeanwhile(obj *unstructured.Unstructured) error {
	return fmt.Errorf("%s was deleted meanwhile: %w", obj.GetName(), backend.ErrConflict)
}

// manager is the field manager of what the hub writes.
const manager = "slipway-hub"

// settled is what an error of a write to an object comes to that may have been
// changed or deleted by others meanwhile.
func settled(err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", backend.ErrConflict, err)
	}
	return err
}

func (s *service) ensureFinalizer(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name string) error {
	if slices.Contains(obj.GetFinalizers(), name) {
		return nil
	}
	return s.become(ctx, gvr, obj, map[string]any{"finalizers": append(obj.GetFinalizers(), name)})
}

// reread makes obj what the API server has now.
func (s *service) reread(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	now, err := s.client.Resource(gvr).Namespace(obj.GetNamespace()).Get(ctx, obj.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && now.GetUID() != obj.GetUID():
		return goneMeanwhile(obj)
	case err != nil:
		return err
	}
	*obj = *now
	return nil
}

// asSeen reads an object again before something is done that cannot be taken back: a
// watch may lag, and longest that of a hub which was paused. It is a conflict where
// the object is another one by now, is being deleted or declares something else.
func (s *service) asSeen(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	seen := obj.GetGeneration()
	if err := s.reread(ctx, gvr, obj); err != nil {
		return err
	}
	if obj.GetGeneration() != seen || obj.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s was changed meanwhile: %w", obj.GetName(), backend.ErrConflict)
	}
	return nil
}

// declaredNow is an object as it is declared now, nil where there is none. The API server is asked for no
// more than its metadata where what was last seen of it declares the same: the status of a placement is
// long. It may be shared.
func (s *service) declaredNow(ctx context.Context, gvr schema.GroupVersionResource, k key) (*unstructured.Unstructured, error) {
	now, err := s.meta.Resource(gvr).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if seen := s.seen(gvr, k); seen != nil && isDeclaredAs(seen, now) {
		return seen, nil
	}
	obj, err := s.client.Resource(gvr).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

func (s *service) dropFinalizer(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name string) error {
	if !slices.Contains(obj.GetFinalizers(), name) {
		return nil
	}
	rest := slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == name })
	return s.patchMetadata(ctx, gvr, obj, map[string]any{"finalizers": rest})
}

func (s *service) annotate(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name, value string) error {
	return s.become(ctx, gvr, obj, map[string]any{"annotations": map[string]any{name: value}})
}

// exactly deletes an object only as it is.
func exactly(obj metav1.Object) metav1.DeleteOptions {
	uid := obj.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// asRead deletes an object only as it was read: an answer that came meanwhile is read first.
func asRead(obj metav1.Object) metav1.DeleteOptions {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}

// condition is one of an object, as far as the hub reads it.
type condition struct {
	Status, Reason, Message string
	ObservedGeneration      int64
	Since                   time.Time
}

func (c condition) is(status string, generation int64) bool {
	return c.Status == status && c.ObservedGeneration == generation
}

// conditionOf returns the condition of that type; the zero value is none.
func conditionOf(obj *unstructured.Unstructured, kind string) (out condition) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		out.Status, _ = m["status"].(string)
		out.Reason, _ = m["reason"].(string)
		out.Message, _ = m["message"].(string)
		out.ObservedGeneration, _ = m["observedGeneration"].(int64)
		since, _ := m["lastTransitionTime"].(string)
		out.Since, _ = time.Parse(time.RFC3339, since)
		return out
	}
	return out
}

// specString returns a field of spec, or "".
func specString(obj *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(obj.Object, append([]string{"spec"}, fields...)...)
	return text
}
