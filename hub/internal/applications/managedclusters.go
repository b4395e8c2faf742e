package applications

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
)

// ManagedClusters shows each MemberCluster as a ManagedCluster of Open Cluster Management. It
// manages only the ManagedClusters that have a MemberCluster as their owner. If another author has
// defined the kind, it creates no ManagedClusters.
type ManagedClusters struct {
	*objects.Client
	Queues *queues.Queues

	// defined reports whether the definition of the kind was seen to be the hub's.
	defined atomic.Bool
}

// definedAgain is the interval of reads of the kind's definition if another author has made it.
const definedAgain = 10 * time.Minute

// Reconcile makes the ManagedCluster of a MemberCluster, brings it up to date, or deletes it after
// the MemberCluster.
func (r *ManagedClusters) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	all := r.Dynamic.Resource(api.ManagedClusterGVR())
	member, shown := r.Cached(api.MemberGVR(), k), r.Object(api.ManagedClusterGVR(), k)
	switch {
	case member == nil && shown == nil:
		r.Queues.ManagedClusters.Drop(k)
		return 0, nil
	case shown != nil && !isProjection(shown):
		return 0, nil
	case member == nil:
		return 0, objects.Settled(all.Delete(ctx, k.Name, objects.AsRead(shown)))
	}
	if own, err := r.isDefined(ctx); !own {
		return definedAgain, err
	}
	want := projectionOf(member)
	var err error
	switch {
	case shown == nil:
		shown, err = all.Create(ctx, want, metav1.CreateOptions{FieldManager: api.Manager})
	case !shows(shown, want):
		shown.SetLabels(want.GetLabels())
		shown.SetOwnerReferences(want.GetOwnerReferences())
		shown.Object["spec"] = want.Object["spec"]
		shown, err = all.Update(ctx, shown, metav1.UpdateOptions{FieldManager: api.Manager})
	}
	if err != nil {
		return 0, objects.Settled(err)
	}
	next, err := api.ToMap(managedStatusOf(member))
	if err != nil {
		return 0, err
	}
	return 0, r.WriteStatusMap(ctx, api.ManagedClusterGVR(), shown, next)
}

// isDefined reports whether the hub's own definition of ManagedClusters is installed. The
// controllers behind another definition would treat a projection as a cluster that registers.
func (r *ManagedClusters) isDefined(ctx context.Context) (bool, error) {
	if r.defined.Load() {
		return true, nil
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crd, err := r.Dynamic.Resource(crds).Get(ctx, api.ManagedClusterGVR().GroupResource().String(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	own := err == nil && crd.GetLabels()[partOf] == partOfSlipway
	if own {
		r.defined.Store(true)
	}
	return own, err
}

// partOf is the label of objects that a hub installs and makes.
const (
	partOf        = "app.kubernetes.io/part-of"
	partOfSlipway = "slipway"
)

const memberKind = "MemberCluster"

// isProjection reports whether a ManagedCluster shows a MemberCluster.
func isProjection(shown *unstructured.Unstructured) bool {
	return slices.ContainsFunc(shown.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		gv, err := schema.ParseGroupVersion(o.APIVersion)
		return err == nil && gv.Group == api.MemberGVR().Group && o.Kind == memberKind && o.Name == shown.GetName()
	})
}

// projectionOf returns the ManagedCluster that shows a member, without its status: its labels are
// the member's.
func projectionOf(member *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"hubAcceptsClient": true, "leaseDurationSeconds": int64(60)},
	}}
	out.SetGroupVersionKind(api.ManagedClusterGVR().GroupVersion().WithKind("ManagedCluster"))
	out.SetName(member.GetName())
	labels := map[string]string{}
	maps.Copy(labels, member.GetLabels())
	labels[partOf] = partOfSlipway
	out.SetLabels(labels)
	out.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: api.MemberGVR().GroupVersion().String(), Kind: memberKind, Name: member.GetName(), UID: member.GetUID(),
	}})
	return out
}

// shows reports whether a ManagedCluster has the labels, owners and spec of want.
func shows(shown, want *unstructured.Unstructured) bool {
	return maps.Equal(shown.GetLabels(), want.GetLabels()) && reflect.DeepEqual(shown.GetOwnerReferences(), want.GetOwnerReferences()) &&
		reflect.DeepEqual(shown.Object["spec"], want.Object["spec"])
}

// managedStatus is the status of a ManagedCluster.
type managedStatus struct {
	Conditions  []metav1.Condition `json:"conditions"`
	Capacity    map[string]any     `json:"capacity,omitempty"`
	Allocatable map[string]any     `json:"allocatable,omitempty"`
}

// managedStatusOf returns the status of the ManagedCluster of a member, with the conditions of
// Open Cluster Management. If the member has not joined, it has only the first condition. If the
// member cannot be reached, its availability is unknown.
func managedStatusOf(member *unstructured.Unstructured) *managedStatus {
	out := &managedStatus{Conditions: []metav1.Condition{{
		Type: "HubAcceptedManagedCluster", Status: metav1.ConditionTrue, Reason: "HubClusterAdminAccepted",
		Message: "Accepted by hub cluster admin", LastTransitionTime: member.GetCreationTimestamp(),
	}}}
	out.Capacity, _, _ = unstructured.NestedMap(member.Object, "status", "resourceUsage", "capacity")
	out.Allocatable, _, _ = unstructured.NestedMap(member.Object, "status", "resourceUsage", "allocatable")
	joined, healthy := api.ConditionOf(member, api.ConditionJoined), api.ConditionOf(member, api.ConditionHealthy)
	if joined.Status != string(metav1.ConditionTrue) {
		return out
	}
	out.Conditions = append(out.Conditions, metav1.Condition{
		Type: "ManagedClusterJoined", Status: metav1.ConditionTrue, Reason: "ManagedClusterJoined",
		Message: "Managed cluster joined", LastTransitionTime: metav1.NewTime(joined.Since),
	})
	available := metav1.Condition{Type: "ManagedClusterConditionAvailable", LastTransitionTime: metav1.NewTime(healthy.Since)}
	switch healthy.Status {
	case string(metav1.ConditionTrue):
		available.Status, available.Reason, available.Message = metav1.ConditionTrue, "ManagedClusterAvailable", "Managed cluster is available"
	case "":
		return out
	default:
		available.Status, available.Reason, available.Message = metav1.ConditionUnknown, "ManagedClusterLeaseUpdateStopped", healthy.Message
	}
	out.Conditions = append(out.Conditions, available)
	return out
}
