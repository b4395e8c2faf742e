package overrides

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Of returns the overrides that concern a placement. It fails if an override that cannot be read
// may concern the placement.
func (r *Reconciler) Of(p fleet.Placement, k api.Key) ([]placement.Override, error) {
	var out []placement.Override
	var wrong []error
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		for _, object := range r.All(api.OverrideGVR(in)) {
			o, err := r.documents.Of(object, kubefleet.OverrideOf)
			switch {
			case err != nil && mayConcern(object, p, k):
				wrong = append(wrong, fmt.Errorf("%s %s: %w", object.GetKind(), api.KeyOf(object), err))
			case err == nil && o.Concerns(p):
				out = append(out, o.Override)
			case err == nil && lacksScope(&o, k) && r.Cached(api.ClusterScope.GVR(api.PlacementKind), api.Key{Name: k.Name}) == nil:
				r.tellScope(object, k)
			}
		}
	}
	slices.SortFunc(out, func(a, b placement.Override) int { return strings.Compare(a.String(), b.String()) })
	return out, errors.Join(wrong...)
}

// UpToDate returns a conflict if an override that concerns a placement was created, changed or
// deleted and the cache does not show that yet.
func (r *Reconciler) UpToDate(ctx context.Context, p fleet.Placement, k api.Key) error {
	var ofNamespaces error
	var done sync.WaitGroup
	done.Go(func() { ofNamespaces = r.upToDate(ctx, api.OverrideGVR(api.NamespaceScope), p, k) })
	err := r.upToDate(ctx, api.OverrideGVR(api.ClusterScope), p, k)
	done.Wait()
	return errors.Join(err, ofNamespaces)
}

func (r *Reconciler) upToDate(ctx context.Context, gvr schema.GroupVersionResource, p fleet.Placement, k api.Key) error {
	now, gone, err := r.Unseen(ctx, gvr)
	if err != nil {
		return err
	}
	for _, key := range now {
		object, err := r.Dynamic.Resource(gvr).Namespace(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case concerns(object, p, k):
			return fmt.Errorf("the cache does not have the current %s %s yet: %w", object.GetKind(), key, backend.ErrConflict)
		}
	}
	for _, object := range gone {
		if concerns(object, p, k) {
			return fmt.Errorf("%s %s was not seen yet to be gone: %w", object.GetKind(), api.KeyOf(object), backend.ErrConflict)
		}
	}
	return nil
}

// concerns reports whether an override concerns a placement, or may do so because it cannot be
// read.
func concerns(object *unstructured.Unstructured, p fleet.Placement, k api.Key) bool {
	o, err := kubefleet.OverrideOf(object)
	return err != nil && mayConcern(object, p, k) || err == nil && o.Concerns(p)
}

// lacksScope reports whether an override names a placement with scope Cluster, although k is a
// ResourcePlacement of that name in the override's namespace.
func lacksScope(o *kubefleet.Override, k api.Key) bool {
	return k.Namespace != "" && o.Namespace == k.Namespace && o.Placement == k.Name && o.PlacementNamespace == ""
}

// tellScope emits an event, once per generation, for an override that has no effect because its
// placement has another scope.
func (r *Reconciler) tellScope(override *unstructured.Unstructured, k api.Key) {
	generation := fmt.Sprintf("%s/%d", override.GetUID(), override.GetGeneration())
	if before, _ := r.scopeTold.Swap(api.KeyOf(override), generation); before == any(generation) {
		return
	}
	r.Recorder.Warning(override, api.EventPlacementNotFound, "The override has no effect: spec.placement names ClusterResourcePlacement %s, which does not exist; "+
		"create it again with spec.placement.scope: Namespaced for ResourcePlacement %s of the namespace %s", k.Name, k.Name, k.Namespace)
}

// mayConcern reports whether an override that cannot be read may concern a placement. An override
// in a namespace never concerns a placement in another namespace, or one that selects nothing in
// the override's namespace.
func mayConcern(override *unstructured.Unstructured, p fleet.Placement, k api.Key) bool {
	if named := api.SpecString(override, "placement", "name"); named != "" && named != k.Name {
		return false
	}
	switch ns := override.GetNamespace(); {
	case ns == "":
		return true
	case k.Namespace == "" && api.SpecString(override, "placement", "scope") == "Namespaced":
		return false
	default:
		return snapshot.Reaches(p.Selectors, ns)
	}
}
