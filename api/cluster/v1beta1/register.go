package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API group of the types, and their version.
const (
	GroupName = "cluster.kubernetes-fleet.io"
	Version   = "v1beta1"
)

// GroupVersion returns the API group and version of the types.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// AddToScheme registers the kinds of the group with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &MemberCluster{}, &MemberClusterList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
