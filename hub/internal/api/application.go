package api

import "k8s.io/apimachinery/pkg/runtime/schema"

// ApplicationGroup is the API group of KubeVela's application workflow. FinalizerApplication keeps
// an application until the objects that it delivered are gone.
const (
	ApplicationGroup     = "core.oam.dev"
	FinalizerApplication = "slipway.dev/application"
)

// ApplicationGVR returns the resource of applications.
func ApplicationGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: ApplicationGroup, Version: "v1beta1", Resource: "applications"}
}

// ReferencedGVRs returns the resources that applications refer to: policies and workflows.
func ReferencedGVRs() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: ApplicationGroup, Version: "v1alpha1", Resource: "policies"},
		{Group: ApplicationGroup, Version: "v1alpha1", Resource: "workflows"},
	}
}

// ManagedClusterGVR returns the resource of Open Cluster Management's ManagedClusters. A hub that
// serves applications shows its members as ManagedClusters.
func ManagedClusterGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}
}
