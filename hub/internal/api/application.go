package api

import "k8s.io/apimachinery/pkg/runtime/schema"

// ApplicationGroup is the API group of the application workflow, KubeVela's; FinalizerApplication holds an application until
// what it delivered is gone.
const (
	ApplicationGroup     = "core.oam.dev"
	FinalizerApplication = "slipway.dev/application"
)

// ApplicationGVR is the resource of applications.
func ApplicationGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: ApplicationGroup, Version: "v1beta1", Resource: "applications"}
}

// ReferencedGVRs are the resources that applications refer to: policies and workflows.
func ReferencedGVRs() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: ApplicationGroup, Version: "v1alpha1", Resource: "policies"},
		{Group: ApplicationGroup, Version: "v1alpha1", Resource: "workflows"},
	}
}

// ManagedClusterGVR is the resource of ManagedClusters, Open Cluster Management's, by which a hub that serves applications
// shows its members.
func ManagedClusterGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
}
