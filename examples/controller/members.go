package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// labelMembers adds a reconciler that gives new members an environment.
func labelMembers(mgr manager.Manager) error {
	member := &metav1.PartialObjectMetadata{}
	member.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Kind: "MemberCluster"})
	return ctrl.NewControllerManagedBy(mgr).For(member).Named("member-environment").
		Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			m := member.DeepCopy()
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, m); err != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			if m.Labels["environment"] != "" {
				return reconcile.Result{}, nil
			}
			before := m.DeepCopy()
			if m.Labels == nil {
				m.Labels = map[string]string{}
			}
			m.Labels["environment"] = "staging"
			return reconcile.Result{}, mgr.GetClient().Patch(ctx, m, client.MergeFrom(before))
		}))
}
