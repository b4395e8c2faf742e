package placements

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/stages"
)

// checkNamespace returns an error if the status of a placement cannot be shown in a namespace: the
// placement selects none, or selects another namespace than before. before is the engine's
// declaration, which is empty for a new placement.
func checkNamespace(obj *unstructured.Unstructured, before, now *fleet.Placement) error {
	if !status.ReportsInNamespace(obj) {
		return nil
	}
	was, is := status.SelectedNamespace(before.Selectors), status.SelectedNamespace(now.Selectors)
	switch {
	case is == "":
		return api.Refused(errors.New("NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace"))
	case was != "" && was != is:
		return api.Refused(&movedError{was, is})
	}
	return nil
}

// movedError reports that a placement now selects a namespace that does not show its status.
type movedError struct{ was, is string }

func (e *movedError) Error() string {
	return fmt.Sprintf("namespace resource selector is choosing a different namespace '%s' from what was originally picked '%s'. "+
		"This is not allowed for NamespaceAccessible ClusterResourcePlacement", e.is, e.was)
}

// writeRefused writes to the status of a placement why the engine refused it. If the placement
// selects another namespace, the rest of the status stays, including its observed generation, and
// only Scheduled reports the problem, as in KubeFleet.
func (r *Reconciler) writeRefused(ctx context.Context, k api.Key, obj *unstructured.Unstructured, refused error) error {
	var moved *movedError
	if !errors.As(refused, &moved) {
		return r.writeInvalid(ctx, k, obj, refused)
	}
	r.Recorder.Warning(obj, api.EventInvalidSelectors, "%v", moved)
	st, _, _ := unstructured.NestedMap(obj.Object, "status")
	if st == nil {
		st = map[string]any{}
	}
	told := status.NamespaceMoved(obj, moved, stages.At(time.Now()))
	c, err := api.ToMap(&told)
	if err != nil {
		return err
	}
	conditions, _ := st["conditions"].([]any)
	conditions = slices.DeleteFunc(conditions, func(before any) bool {
		m, ok := before.(map[string]any)
		return ok && m["type"] == c["type"]
	})
	st["conditions"] = append(conditions, c)
	return r.WriteStatusMap(ctx, api.ScopeOf(k).GVR(api.PlacementKind), obj, st)
}

// showInNamespace copies the status of a placement to the namespace that it selects, if the
// placement asks for that, and adds the outcome to st as a condition. It returns an error only if a
// retry may help.
func (r *Reconciler) showInNamespace(ctx context.Context, obj *unstructured.Unstructured, p *fleet.Placement, st *v1beta1.PlacementStatus) error {
	namespace := status.SelectedNamespace(p.Selectors)
	if !status.ReportsInNamespace(obj) || namespace == "" {
		return nil
	}
	err := r.writeReplica(ctx, obj, namespace, status.NamespaceReplica(st, namespace))
	st.Conditions = append(st.Conditions, status.ReportedInNamespace(obj, namespace, err, stages.At(time.Now())))
	if apierrors.IsNotFound(err) || api.IsRefusal(err) {
		// A retry does not help: the placement is reconciled when the namespace is created, or the
		// object of another client is in the way.
		return nil
	}
	return objects.Settled(err)
}

// writeReplica creates the object that shows a status in a namespace, or updates it if it shows
// another status. It refuses to change an object that the placement does not control.
func (r *Reconciler) writeReplica(ctx context.Context, obj *unstructured.Unstructured, namespace string, replica *v1beta1.PlacementStatus) error {
	content, err := api.ToMap(replica)
	if err != nil {
		return err
	}
	resource := r.Dynamic.Resource(api.ReplicaGVR()).Namespace(namespace)
	u, err := resource.Get(ctx, obj.GetName(), metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	switch {
	case missing:
		u = &unstructured.Unstructured{Object: map[string]any{}}
		u.SetGroupVersionKind(api.ReplicaGVK())
		u.SetName(obj.GetName())
		u.SetOwnerReferences([]metav1.OwnerReference{status.OwnedBy(api.ClusterScope, api.PlacementKind, obj.GetName(), obj.GetUID())})
	case err != nil:
		return err
	case !metav1.IsControlledBy(u, obj):
		return api.Refused(fmt.Errorf("%s/%s is not this placement's: delete it, or give the placement another name", namespace, obj.GetName()))
	case reflect.DeepEqual(u.Object["sourceStatus"], any(content)):
		return nil
	}
	u.Object["sourceStatus"], u.Object["lastUpdatedTime"] = content, api.Seconds(stages.At(time.Now())).UTC().Format(time.RFC3339)
	if missing {
		_, err = resource.Create(ctx, u, metav1.CreateOptions{FieldManager: api.Manager})
	} else {
		_, err = resource.Update(ctx, u, metav1.UpdateOptions{FieldManager: api.Manager})
	}
	return err
}
