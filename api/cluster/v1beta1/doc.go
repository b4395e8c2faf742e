// Package v1beta1 has the Go types of the API group cluster.kubernetes-fleet.io: the members of a fleet.
//
// The types and their JSON names equal those of KubeFleet v0.18; a test compares them with
// KubeFleet's own module. Fields of Slipway alone say so in their comments. The
// CustomResourceDefinition in hub/manifests/crds is generated from the types.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.kubernetes-fleet.io
package v1beta1
