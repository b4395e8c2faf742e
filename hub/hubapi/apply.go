package hubapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/backend"
)

// ApplyResult is the result of applying an object: the object before, nil if there was none, and
// after. Neither has a status or metadata that changes with every write.
type ApplyResult struct {
	Before, After *unstructured.Unstructured
}

// Unchanged reports whether the apply changed nothing.
func (a ApplyResult) Unchanged() bool {
	if a.Before == nil {
		return false
	}
	x, errX := json.Marshal(a.Before)
	y, errY := json.Marshal(a.After)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// ApplyOptions are the options of [Hub.Apply].
type ApplyOptions struct {
	// Force takes fields from other field managers. Without Force, it is a conflict if taking such
	// fields would change the object.
	Force bool
	// DryRun lets the API server check the object, and changes nothing.
	DryRun bool
}

func dryRun(dry bool) []string {
	if dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Apply applies an object of any kind on the server, with the rights of the caller. An unknown
// field is an error. An object without a namespace is in the served namespace, or in default, if
// its kind has namespaces.
func (h *Hub) Apply(ctx context.Context, u *unstructured.Unstructured, o ApplyOptions) (ApplyResult, error) {
	u = bare(u)
	unstructured.RemoveNestedField(u.Object, "status")
	objects, err := h.objectsOf(u)
	if err != nil {
		return ApplyResult{}, err
	}
	before, err := objects.Get(ctx, u.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		before = nil
	case err != nil:
		return ApplyResult{}, explain(err, u.GetNamespace(), "viewer")
	}
	text, err := json.Marshal(u)
	if err != nil {
		return ApplyResult{}, err
	}
	patch := func(force, dry bool) (ApplyResult, error) {
		after, err := objects.Patch(ctx, u.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
			FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun(dry),
		})
		if err != nil {
			return ApplyResult{}, explain(err, u.GetNamespace(), "editor")
		}
		return applied(before, after), nil
	}
	out, err := patch(o.Force, o.DryRun)
	if !apierrors.IsConflict(err) || o.Force {
		return out, err
	}
	// Another manager may have the same values: a list with defaults of the API server is one
	// field.
	switch same, invalid := patch(true, true); {
	case invalid != nil:
		return ApplyResult{}, invalid // the conflict is not the only problem
	case same.Unchanged():
		return same, nil
	}
	return ApplyResult{}, fmt.Errorf("%w: --force-conflicts takes these fields over", err)
}

func applied(before, after *unstructured.Unstructured) ApplyResult {
	out := ApplyResult{After: bare(after)}
	unstructured.RemoveNestedField(out.After.Object, "status")
	if before != nil {
		out.Before = bare(before)
		unstructured.RemoveNestedField(out.Before.Object, "status")
	}
	return out
}

// Remove deletes an object of any kind, and reports whether it existed. A run that is running or
// stopping, and a placement with such a run, are refused unless force is set. The hub cleans up
// before an object disappears.
func (h *Hub) Remove(ctx context.Context, u *unstructured.Unstructured, force, dry bool) (bool, error) {
	objects, err := h.objectsOf(u)
	if err != nil {
		return false, err
	}
	now, err := objects.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, explain(err, u.GetNamespace(), "viewer")
	}
	if !force {
		if err := mayBeDeleted(ctx, h, now); err != nil {
			return true, err
		}
	}
	err = objects.Delete(ctx, u.GetName(), metav1.DeleteOptions{DryRun: dryRun(dry)})
	return true, explain(err, u.GetNamespace(), "editor")
}

// objectsOf returns the client for an object, and sets its namespace.
func (h *Hub) objectsOf(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := u.GroupVersionKind()
	mapping, err := h.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("the cluster has no kind %s of %s: %w", kind.Kind, kind.GroupVersion(), errors.Join(backend.ErrNotFound, err))
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return h.client.Resource(mapping.Resource), nil
	}
	u.SetNamespace(cmp.Or(u.GetNamespace(), h.namespace, metav1.NamespaceDefault))
	return h.client.Resource(mapping.Resource).Namespace(u.GetNamespace()), nil
}

// bare returns a copy of an object without the metadata that the API server writes.
func bare(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(u.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if len(u.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(u.Object, "metadata", "annotations")
	}
	return u
}
