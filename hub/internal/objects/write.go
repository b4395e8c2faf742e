package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// PatchMetadata changes metadata of an object, if it still has the UID and resourceVersion of
// obj. A conflict is [backend.ErrConflict]; a missing object is no error.
func (c *Client) PatchMetadata(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, fields map[string]any) error {
	_, err := c.patch(ctx, gvr, obj, fields)
	return Settled(err)
}

// patch changes metadata like PatchMetadata, and returns the changed object.
func (c *Client) patch(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, fields map[string]any) (*unstructured.Unstructured, error) {
	fields["uid"], fields["resourceVersion"] = string(obj.GetUID()), obj.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": fields})
	if err != nil {
		return nil, err
	}
	return c.Dynamic.Resource(gvr).Namespace(obj.GetNamespace()).Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: api.Manager})
}

// become changes metadata of an object, and stores the changed object in obj.
func (c *Client) become(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, fields map[string]any) error {
	now, err := c.patch(ctx, gvr, obj, fields)
	if apierrors.IsNotFound(err) {
		return deletedConcurrently(obj)
	}
	if err != nil {
		return Settled(err)
	}
	*obj = *now
	return nil
}

func deletedConcurrently(obj *unstructured.Unstructured) error {
	return fmt.Errorf("another client deleted %s: %w", obj.GetName(), backend.ErrConflict)
}

// Settled maps the errors of a write that another client may have overtaken: a missing object to
// nil, and a conflict or an existing object to [backend.ErrConflict]. A kind that the API server
// does not serve remains an error, because its objects may still be stored.
func Settled(err error) error {
	switch {
	case err == nil, apierrors.IsNotFound(err) && !kubehttp.NoSuchKind(err):
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", backend.ErrConflict, err)
	}
	return err
}

// EnsureFinalizer adds a finalizer to an object, and stores the changed object in obj.
func (c *Client) EnsureFinalizer(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name string) error {
	if slices.Contains(obj.GetFinalizers(), name) {
		return nil
	}
	return c.become(ctx, gvr, obj, map[string]any{"finalizers": append(obj.GetFinalizers(), name)})
}

// Refresh reads obj from the API server again. It returns a conflict if the object is gone or was
// replaced.
func (c *Client) Refresh(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	now, err := c.Dynamic.Resource(gvr).Namespace(obj.GetNamespace()).Get(ctx, obj.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && now.GetUID() != obj.GetUID():
		return deletedConcurrently(obj)
	case err != nil:
		return err
	}
	*obj = *now
	return nil
}

// Recheck reads an object again before an action that cannot be undone, because a watch may lag,
// most of all in a hub that was paused. It returns a conflict if the object was replaced, is
// being deleted or has another generation.
func (c *Client) Recheck(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	seen := obj.GetGeneration()
	if err := c.Refresh(ctx, gvr, obj); err != nil {
		return err
	}
	if obj.GetGeneration() != seen || obj.GetDeletionTimestamp() != nil {
		return fmt.Errorf("another client changed %s: %w", obj.GetName(), backend.ErrConflict)
	}
	return nil
}

// DeclaredNow returns the current declaration of an object, nil if there is none. It reads only
// the metadata if the cached object declares the same, because the status of a placement is long.
// The result may be shared.
func (c *Client) DeclaredNow(ctx context.Context, gvr schema.GroupVersionResource, k api.Key) (*unstructured.Unstructured, error) {
	now, err := c.Metadata.Resource(gvr).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if seen := c.Cached(gvr, k); seen != nil && isDeclaredAs(seen, now) {
		return seen, nil
	}
	obj, err := c.Dynamic.Resource(gvr).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// DropFinalizer removes a finalizer from an object, if the object has it.
func (c *Client) DropFinalizer(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name string) error {
	if !slices.Contains(obj.GetFinalizers(), name) {
		return nil
	}
	rest := slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == name })
	return c.PatchMetadata(ctx, gvr, obj, map[string]any{"finalizers": rest})
}

// Annotate sets an annotation of an object, and stores the changed object in obj.
func (c *Client) Annotate(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name, value string) error {
	return c.become(ctx, gvr, obj, map[string]any{"annotations": map[string]any{name: value}})
}

// Label sets a label of an object, and stores the changed object in obj.
func (c *Client) Label(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, name, value string) error {
	return c.become(ctx, gvr, obj, map[string]any{"labels": map[string]any{name: value}})
}

// exactly returns options that delete an object only if it has the same UID.
func exactly(obj metav1.Object) metav1.DeleteOptions {
	uid := obj.GetUID()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// AsRead returns options that delete an object only if its UID and resourceVersion are unchanged,
// so that a later answer is read first.
func AsRead(obj metav1.Object) metav1.DeleteOptions {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
}
