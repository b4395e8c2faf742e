package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlacementStatus is the observed state of a placement.
type PlacementStatus struct {
	// The objects of the snapshot that the clusters have.
	SelectedResources []ResourceIdentifier `json:"selectedResources,omitempty"`
	// The index of the snapshot that all clusters have.
	ObservedResourceIndex string `json:"observedResourceIndex,omitempty"`
	// How many objects are selected, even if selectedResources is shorter. Not in KubeFleet.
	// +kubebuilder:validation:Minimum=0
	SelectedResourcesTotal int `json:"selectedResourcesTotal,omitempty"`
	// How many clusters are picked, even if placementStatuses is shorter. Not in KubeFleet.
	// +kubebuilder:validation:Minimum=0
	PlacementStatusesTotal int `json:"placementStatusesTotal,omitempty"`
	// The progress of the deletion of the placement. Not in KubeFleet.
	Deletion *PlacementDeletionStatus `json:"deletion,omitempty"`
	// The clusters. If there are too many for one object, clusters in trouble are listed first.
	PerClusterPlacementStatuses []PerClusterPlacementStatus `json:"placementStatuses,omitempty"`
	// The conditions of all clusters together. Each type has the kind of the placement before it.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PlacementDeletionStatus is the progress of the deletion of a placement.
type PlacementDeletionStatus struct {
	// A sentence for people.
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message"`
	// How many clusters still have objects of the placement.
	// +kubebuilder:validation:Minimum=0
	Remaining int `json:"remaining"`
	// The clusters that delay the deletion, and those whose objects were given up.
	Clusters []ClusterDeletionStatus `json:"clusters,omitempty"`
}

// ClusterDeletionStatus says why a cluster delays the deletion of a placement.
type ClusterDeletionStatus struct {
	// The name of the cluster.
	ClusterName string `json:"clusterName"`
	// The reason, for people.
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message"`
}

// PerClusterPlacementStatus is the state of a placement on one cluster.
type PerClusterPlacementStatus struct {
	// The name of the cluster.
	ClusterName string `json:"clusterName,omitempty"`
	// The index of the snapshot that the cluster gets.
	ObservedResourceIndex string `json:"observedResourceIndex,omitempty"`
	// How many objects differ, even if the lists are shorter. Not in KubeFleet.
	// +kubebuilder:validation:Minimum=0
	DifferencesTotal int `json:"differencesTotal,omitempty"`
	// The ResourceOverrides that change objects on the cluster.
	ApplicableResourceOverrides []NamespacedName `json:"applicableResourceOverrides,omitempty"`
	// The ClusterResourceOverrides that change objects on the cluster.
	ApplicableClusterResourceOverrides []string `json:"applicableClusterResourceOverrides,omitempty"`
	// Objects that could not be applied or are not healthy.
	// +kubebuilder:validation:MaxItems=100
	FailedPlacements []FailedResourcePlacement `json:"failedPlacements,omitempty"`
	// Objects of the placement that were changed on the cluster.
	// +kubebuilder:validation:MaxItems=100
	DriftedPlacements []DriftedResourcePlacement `json:"driftedPlacements,omitempty"`
	// Objects that differ from the hub and do not belong to the placement on the cluster.
	// +kubebuilder:validation:MaxItems=100
	DiffedPlacements []DiffedResourcePlacement `json:"diffedPlacements,omitempty"`
	// Scheduled, RolloutStarted, Overridden, WorkSynchronized, Applied, Available and DiffReported.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceIdentifier names an object.
type ResourceIdentifier struct {
	// The API group; empty for the core group.
	Group string `json:"group,omitempty"`
	// The version of the group.
	Version string `json:"version"`
	// The kind.
	Kind string `json:"kind"`
	// The name.
	Name string `json:"name"`
	// The namespace; empty for a cluster-scoped object.
	Namespace string `json:"namespace,omitempty"`
	// The envelope that has the object.
	Envelope *EnvelopeIdentifier `json:"envelope,omitempty"`
}

// EnvelopeIdentifier names an envelope.
type EnvelopeIdentifier struct {
	// The name of the envelope.
	Name string `json:"name"`
	// The namespace of the envelope.
	Namespace string `json:"namespace,omitempty"`
	// The kind of the envelope.
	// +optional
	Type EnvelopeType `json:"type"`
}

// EnvelopeType is a kind of envelopes.
//
// +kubebuilder:validation:Enum=ConfigMap;ClusterResourceEnvelope;ResourceEnvelope
type EnvelopeType string

// The kinds of envelopes.
const (
	// ConfigMapEnvelopeType is a ConfigMap, which KubeFleet no longer places as an envelope.
	ConfigMapEnvelopeType EnvelopeType = "ConfigMap"
	// ClusterResourceEnvelopeType is a ClusterResourceEnvelope.
	ClusterResourceEnvelopeType EnvelopeType = "ClusterResourceEnvelope"
	// ResourceEnvelopeType is a ResourceEnvelope.
	ResourceEnvelopeType EnvelopeType = "ResourceEnvelope"
)

// NamespacedName names an object of a known kind.
type NamespacedName struct {
	// The name.
	Name string `json:"name"`
	// The namespace; empty for a cluster-scoped object.
	// +optional
	Namespace string `json:"namespace"`
}

// FailedResourcePlacement is an object that could not be applied or is not healthy.
type FailedResourcePlacement struct {
	ResourceIdentifier `json:",inline"`

	// The reason of the failure.
	Condition metav1.Condition `json:"condition"`
}

// DriftedResourcePlacement is an object of a placement that was changed on a cluster.
type DriftedResourcePlacement struct {
	ResourceIdentifier `json:",inline"`

	// When the drift was seen last.
	ObservationTime metav1.Time `json:"observationTime"`
	// The generation of the object on the cluster.
	TargetClusterObservedGeneration int64 `json:"targetClusterObservedGeneration"`
	// When the drift was seen first.
	FirstDriftedObservedTime metav1.Time `json:"firstDriftedObservedTime"`
	// The differences.
	ObservedDrifts []PatchDetail `json:"observedDrifts,omitempty"`
}

// DiffedResourcePlacement is an object that differs from the hub and does not belong to the placement on the cluster.
type DiffedResourcePlacement struct {
	ResourceIdentifier `json:",inline"`

	// When the difference was seen last.
	ObservationTime metav1.Time `json:"observationTime"`
	// The generation of the object on the cluster; nil if the cluster does not have the object.
	TargetClusterObservedGeneration *int64 `json:"targetClusterObservedGeneration,omitempty"`
	// When the difference was seen first.
	FirstDiffedObservedTime metav1.Time `json:"firstDiffedObservedTime"`
	// The differences.
	ObservedDiffs []PatchDetail `json:"observedDiffs,omitempty"`
}

// PatchDetail is one difference between an object of the hub and the object of a cluster.
type PatchDetail struct {
	// The place of the difference, as a JSON pointer (RFC 6901).
	Path string `json:"path"`
	// The value on the cluster; absent if it has none.
	ValueInMember *string `json:"valueInMember,omitempty"`
	// The value on the hub; absent if it has none.
	ValueInHub *string `json:"valueInHub,omitempty"`
}

// ClusterResourcePlacementStatus shows the status of a ClusterResourcePlacement with the
// statusReportingScope NamespaceAccessible in the namespace that the placement selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceplacementstatuses,scope=Namespaced,shortName=crps,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="Resource-Index",type=string,JSONPath=`.sourceStatus.observedResourceIndex`
// +kubebuilder:printcolumn:name="Last-Updated",type=string,JSONPath=`.lastUpdatedTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourcePlacementStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The status, without objects outside of the namespace, without values, and with the messages of True conditions
	// alone.
	PlacementStatus PlacementStatus `json:"sourceStatus,omitzero"`
	// When the hub wrote the status last.
	LastUpdatedTime metav1.Time `json:"lastUpdatedTime,omitzero"`
}

// ClusterResourcePlacementStatusList is a list of ClusterResourcePlacementStatuses.
//
// +kubebuilder:object:root=true
type ClusterResourcePlacementStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourcePlacementStatus `json:"items"`
}
