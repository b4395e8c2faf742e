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
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/stages"
)

// checkNamespace returns why the status of a placement cannot be shown in the namespace that it selects: it names none, or
// another one than before, which is what the engine has of the placement and empty for a new one.
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

// movedError says that a placement selects another namespace than the one that its status is shown in.
type movedError struct{ was, is string }

func (e *movedError) Error() string {
	return fmt.Sprintf("namespace resource selector is choosing a different namespace '%s' from what was originally picked '%s'. "+
		"This is not allowed for NamespaceAccessible ClusterResourcePlacement", e.is, e.was)
}

// writeRefused says in the status of a placement why the engine cannot have it. The status of a placement that selects
// another namespace stays, with the generation before, and only Scheduled says what is wrong, as in KubeFleet.
func (r *Reconciler) writeRefused(ctx context.Context, k api.Key, obj *unstructured.Unstructured, refused error) error {
	var moved *movedError
	if !errors.As(refused, &moved) {
		return r.writeInvalid(ctx, k, obj, refused)
	}
	r.Recorder.Warning(obj, api.ReasonInvalidSelectors, "%v", moved)
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

// showInNamespace shows the status of a placement in the namespace that it selects, where that is asked for, and adds to
// the status whether it does. The returned error is one after which it is to be tried again; it is in the status, too.
func (r *Reconciler) showInNamespace(ctx context.Context, obj *unstructured.Unstructured, p *fleet.Placement, st *v1beta1.PlacementStatus) error {
	namespace := status.SelectedNamespace(p.Selectors)
	if !status.ReportsInNamespace(obj) || namespace == "" {
		return nil
	}
	err := r.writeReplica(ctx, obj, namespace, status.NamespaceReplica(st, namespace))
	st.Conditions = append(st.Conditions, status.ReportedInNamespace(obj, namespace, err, stages.At(time.Now())))
	if apierrors.IsNotFound(err) || api.IsRefusal(err) {
		// Trying again is of no use: the placement is reconciled when the namespace is created, or the object of another
		// client is in the way.
		return nil
	}
	return objects.Settled(err)
}

// writeReplica creates the object that shows a status in a namespace, or changes it where it shows another one. One that
// is not the placement's is left alone.
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
