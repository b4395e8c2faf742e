package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterResourcePlacementEviction removes the objects of a placement from a cluster once. The hub answers it once. To
// evict again, delete it and create it again.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceplacementevictions,scope=Cluster,shortName=crpe,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Executed",type=string,JSONPath=`.status.conditions[?(@.type=="Executed")].status`
type ClusterResourcePlacementEviction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The placement and the cluster. They cannot be changed.
	Spec PlacementEvictionSpec `json:"spec"`
	// The answer.
	Status PlacementEvictionStatus `json:"status,omitzero"`
}

// ClusterResourcePlacementEvictionList is a list of ClusterResourcePlacementEvictions.
//
// +kubebuilder:object:root=true
type ClusterResourcePlacementEvictionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourcePlacementEviction `json:"items"`
}

// PlacementEvictionSpec names a placement and a cluster.
type PlacementEvictionSpec struct {
	// The name of the placement.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="The PlacementName field is immutable"
	PlacementName string `json:"placementName"`
	// The name of the cluster.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="The ClusterName field is immutable"
	ClusterName string `json:"clusterName"`
}

// PlacementEvictionStatus is the answer to an eviction.
type PlacementEvictionStatus struct {
	// Valid, and Executed if the eviction is valid. Both are final.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterResourcePlacementDisruptionBudget bounds how many clusters evictions may take from the placement of the same
// name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceplacementdisruptionbudgets,scope=Cluster,shortName=crpdb,categories={fleet,fleet-placement}
type ClusterResourcePlacementDisruptionBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The bound.
	Spec PlacementDisruptionBudgetSpec `json:"spec"`
}

// ClusterResourcePlacementDisruptionBudgetList is a list of ClusterResourcePlacementDisruptionBudgets.
//
// +kubebuilder:object:root=true
type ClusterResourcePlacementDisruptionBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourcePlacementDisruptionBudget `json:"items"`
}

// PlacementDisruptionBudgetSpec has one of two bounds.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.maxUnavailable) && has(self.minAvailable))",message="Both MaxUnavailable and MinAvailable cannot be specified"
type PlacementDisruptionBudgetSpec struct {
	// How many clusters may be without the objects at a time: a number, or a percentage of numberOfClusters, rounded
	// up. Not for PickAll.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",message="If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// How many clusters must have the objects: a number or, for PickN, a percentage of numberOfClusters, rounded up.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",message="If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
}

// ClusterResourceEnvelope has objects for clusters that must not take effect on the hub. Clusters get the objects and
// not the envelope.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceenvelopes,scope=Cluster,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourceEnvelope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The objects, each under a name of its own.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=50
	Data map[string]ResourceContent `json:"data"`
}

// ClusterResourceEnvelopeList is a list of ClusterResourceEnvelopes.
//
// +kubebuilder:object:root=true
type ClusterResourceEnvelopeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourceEnvelope `json:"items"`
}

// ResourceEnvelope has objects of its namespace for clusters that must not take effect on the hub. Clusters get the
// objects and not the envelope.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceenvelopes,scope=Namespaced,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceEnvelope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The objects, each under a name of its own.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=50
	Data map[string]ResourceContent `json:"data"`
}

// ResourceEnvelopeList is a list of ResourceEnvelopes.
//
// +kubebuilder:object:root=true
type ResourceEnvelopeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceEnvelope `json:"items"`
}
