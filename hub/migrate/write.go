package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// fieldManager is the field manager of a migration.
const fieldManager = "slipway-migrate"

// mostConflicts is the maximum number of attempts for a change while other clients change the
// object.
const mostConflicts = 20

// target identifies an object. An object with another UID is not touched; an empty uid matches any.
type target struct {
	gvr schema.GroupVersionResource
	api.Key
	uid types.UID
}

func targetOf(gvr schema.GroupVersionResource, obj metav1.Object) target {
	return target{gvr, api.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}, obj.GetUID()}
}

func (t target) String() string {
	resource := t.gvr.Resource
	if t.gvr.Group != "" {
		resource += "." + t.gvr.Group
	}
	return resource + " " + keyName(t.Key)
}

// change patches the metadata of an object with the result of decide for its current version, and
// reports whether it did. It does nothing if the object does not exist, has another UID, or decide
// returns nothing. The patch applies only to the version that decide got.
func (c *cluster) change(ctx context.Context, t target, decide func(*metav1.PartialObjectMetadata) map[string]any) (bool, error) {
	resource := c.metadata.Resource(t.gvr).Namespace(t.Namespace)
	for range mostConflicts {
		now, err := resource.Get(ctx, t.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && t.uid != "" && now.UID != t.uid {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("%s: %s: %w", c.name, t, err)
		}
		fields := decide(now)
		if len(fields) == 0 {
			return false, nil
		}
		fields["uid"], fields["resourceVersion"] = now.UID, now.ResourceVersion
		patch, err := json.Marshal(map[string]any{"metadata": fields})
		if err != nil {
			return false, err
		}
		_, err = resource.Patch(ctx, t.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		switch {
		case err == nil:
			return true, nil
		case !apierrors.IsConflict(err):
			return false, fmt.Errorf("%s: %s: %w", c.name, t, err)
		}
	}
	return false, fmt.Errorf("%s: %s: it is changed by others all the time", c.name, t)
}

// dropFinalizers returns the changes that remove only the finalizers of the Fleet API.
func dropFinalizers(obj *metav1.PartialObjectMetadata) map[string]any {
	left, some := withoutFinalizers(obj)
	if !some {
		return nil
	}
	return map[string]any{"finalizers": left}
}

// remove deletes an object after removing its finalizers of the Fleet API, and reports whether it
// changed anything.
func (c *cluster) remove(ctx context.Context, t target) (bool, error) {
	released, err := c.change(ctx, t, dropFinalizers)
	if err != nil {
		return false, err
	}
	deleted, err := c.delete(ctx, t, metav1.DeletePropagationBackground)
	return released || deleted, err
}

// delete deletes an object if its UID is still the same, and reports whether it did.
func (c *cluster) delete(ctx context.Context, t target, how metav1.DeletionPropagation) (bool, error) {
	o := metav1.DeleteOptions{PropagationPolicy: &how, Preconditions: &metav1.Preconditions{UID: &t.uid}}
	err := c.metadata.Resource(t.gvr).Namespace(t.Namespace).Delete(ctx, t.Name, o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %s: %w", c.name, t, err)
	}
	return true, nil
}

// deleteNamed deletes an object by its name, and reports whether it existed.
func (c *cluster) deleteNamed(ctx context.Context, gvr schema.GroupVersionResource, k api.Key) (bool, error) {
	now, err := c.metadata.Resource(gvr).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %s: %w", c.name, target{gvr: gvr, Key: k}, err)
	}
	return c.delete(ctx, targetOf(gvr, now), metav1.DeletePropagationBackground)
}

// withoutManagers reduces the fields of some managers to KubeFleet's annotations, and adds
// managedFields to fields if that changes the list. The annotations are kept so that the list does
// not become empty: then the next server-side apply would give all fields to the manager
// before-first-apply, which never releases them. If no entry is left, a list with one empty entry
// tells the API server to clear the list.
func withoutManagers(fields map[string]any, obj *metav1.PartialObjectMetadata, drop func(manager string) bool) {
	var left []metav1.ManagedFieldsEntry
	changed := false
	for _, e := range obj.ManagedFields {
		if e.Subresource == "" && drop(e.Manager) {
			before := e.FieldsV1
			e.FieldsV1 = onlyAnnotations(before)
			changed = changed || e.FieldsV1 == nil || !bytes.Equal(before.GetRawBytes(), e.FieldsV1.GetRawBytes())
			if e.FieldsV1 == nil {
				continue
			}
		}
		left = append(left, e)
	}
	switch {
	case !changed:
	case len(left) == 0:
		fields["managedFields"] = []any{map[string]any{}}
	default:
		fields["managedFields"] = left
	}
}

// onlyAnnotations returns the annotations of KubeFleet among the fields of a manager, nil if there
// are none.
func onlyAnnotations(fields *metav1.FieldsV1) *metav1.FieldsV1 {
	var owned struct {
		Metadata struct {
			Annotations map[string]struct{} `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if fields == nil || json.Unmarshal(fields.GetRawBytes(), &owned) != nil {
		return nil
	}
	ofKubeFleet := hasAnyPrefix("f:"+fleetPrefix, "f:fleet.azure.com/")
	maps.DeleteFunc(owned.Metadata.Annotations, func(key string, _ struct{}) bool { return !ofKubeFleet(key) })
	if len(owned.Metadata.Annotations) == 0 {
		return nil
	}
	raw, err := json.Marshal(owned)
	if err != nil {
		return nil
	}
	return metav1.NewFieldsV1(string(raw))
}

// without returns a merge patch that removes the matching keys of a map, nil if no key matches.
func without(have map[string]string, match func(key string) bool) map[string]any {
	var out map[string]any
	for key := range have {
		if match(key) {
			if out == nil {
				out = map[string]any{}
			}
			out[key] = nil
		}
	}
	return out
}

// hasAnyPrefix returns a function that reports whether a key has one of the prefixes.
func hasAnyPrefix(prefixes ...string) func(string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
	}
}

// errStopped means that an agent was started during a migration.
var errStopped = errors.New("an agent of KubeFleet was started during the migration: stop it, and repeat the command with the same backup file")
