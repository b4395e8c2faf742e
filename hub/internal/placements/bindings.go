package placements

import (
	"context"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// bindingsPace is the minimum time between two writes of the bindings of one placement.
const bindingsPace = 100 * time.Millisecond

// annotationState holds the state that a binding shows. With it, the metadata of a binding is
// enough to see whether the binding is up to date.
const annotationState = "slipway.dev/binding-state"

// ReconcileBindings creates, updates and deletes the binding objects of a placement, one after the
// other. It has its own queue because a placement has one binding per cluster, and no other
// reconcile should wait for that many writes.
func (r *Reconciler) ReconcileBindings(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Cached(api.ScopeOf(k).GVR(api.PlacementKind), k)
	want, known := r.bindings.Load(k)
	if obj == nil || !known {
		r.Queues.Bindings.Drop(k)
		// the garbage collector deletes them with the placement, or the clusters are not known yet
		return 0, nil
	}
	gvr := api.ScopeOf(k).GVR(api.BindingKind)
	have := maps.Clone(r.Mirrored(gvr, k))
	for _, b := range want.([]status.Binding) {
		name := status.BindingName(k.Name, b.Cluster)
		now := have[name]
		delete(have, name)
		if err := r.showBinding(ctx, obj, name, b, now); err != nil {
			return 0, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if err := r.DeleteMirror(ctx, gvr, have[name]); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// showBinding creates the object of a binding, or updates it if it shows another state.
func (r *Reconciler) showBinding(
	ctx context.Context, placement *unstructured.Unstructured, name string, b status.Binding, now *metav1.PartialObjectMetadata,
) error {
	if now != nil && objects.IsOwnedBy(now, placement) && now.Annotations[annotationState] == string(b.State) {
		return nil
	}
	in := api.ScopeOf(api.KeyOf(placement))
	u, err := api.New(in.GVK(api.BindingKind), &v1beta1.ResourceBindingSpec{State: b.State, TargetCluster: b.Cluster})
	if err != nil {
		return err
	}
	u.SetName(name)
	u.SetLabels(map[string]string{api.LabelParent: placement.GetName()})
	u.SetAnnotations(map[string]string{annotationState: string(b.State)})
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: in.GVK(api.PlacementKind).GroupVersion().String(), Kind: in.Kind(api.PlacementKind), Name: placement.GetName(), UID: placement.GetUID(),
	}})
	resource := r.Dynamic.Resource(in.GVR(api.BindingKind))
	if now == nil {
		_, err = resource.Create(ctx, u, metav1.CreateOptions{FieldManager: api.Manager})
	} else {
		u.SetUID(now.UID)
		u.SetResourceVersion(now.ResourceVersion)
		_, err = resource.Update(ctx, u, metav1.UpdateOptions{FieldManager: api.Manager})
	}
	return objects.Settled(err)
}
