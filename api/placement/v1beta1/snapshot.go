package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ClusterResourceSnapshot has the objects that a ClusterResourcePlacement selected at a point in time. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourcesnapshots,scope=Cluster,shortName=crs,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Gen",type=string,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourceSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The selected objects.
	Spec ResourceSnapshotSpec `json:"spec"`
	// The observed state of the snapshot.
	Status ResourceSnapshotStatus `json:"status,omitzero"`
}

// ClusterResourceSnapshotList is a list of ClusterResourceSnapshots.
//
// +kubebuilder:object:root=true
type ClusterResourceSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourceSnapshot `json:"items"`
}

// ResourceSnapshot has the objects that a ResourcePlacement selected at a point in time. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourcesnapshots,scope=Namespaced,shortName=rss,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Gen",type=string,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceSnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The selected objects.
	Spec ResourceSnapshotSpec `json:"spec"`
	// The observed state of the snapshot.
	Status ResourceSnapshotStatus `json:"status,omitzero"`
}

// ResourceSnapshotList is a list of ResourceSnapshots.
//
// +kubebuilder:object:root=true
type ResourceSnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourceSnapshot `json:"items"`
}

// ResourceSnapshotSpec has the objects of a snapshot.
type ResourceSnapshotSpec struct {
	// The objects, without fields that belong to the hub.
	SelectedResources []ResourceContent `json:"selectedResources"`
}

// ResourceContent is an object of any kind.
//
// +kubebuilder:validation:XEmbeddedResource
// +kubebuilder:pruning:PreserveUnknownFields
type ResourceContent struct {
	runtime.RawExtension `json:",inline"`
}

// ResourceSnapshotStatus is the observed state of a snapshot.
type ResourceSnapshotStatus struct {
	// The conditions of the snapshot.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterSchedulingPolicySnapshot has the policy of a ClusterResourcePlacement at a point in time, and the clusters that it
// picked.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterschedulingpolicysnapshots,scope=Cluster,shortName=csps,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Gen",type=string,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterSchedulingPolicySnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	Spec SchedulingPolicySnapshotSpec `json:"spec"`
	// The picked clusters.
	Status SchedulingPolicySnapshotStatus `json:"status,omitzero"`
}

// ClusterSchedulingPolicySnapshotList is a list of ClusterSchedulingPolicySnapshots.
//
// +kubebuilder:object:root=true
type ClusterSchedulingPolicySnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterSchedulingPolicySnapshot `json:"items"`
}

// SchedulingPolicySnapshot has the policy of a ResourcePlacement at a point in time, and the clusters that it picked.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=schedulingpolicysnapshots,scope=Namespaced,shortName=sps,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Gen",type=string,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SchedulingPolicySnapshot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The policy.
	Spec SchedulingPolicySnapshotSpec `json:"spec"`
	// The picked clusters.
	Status SchedulingPolicySnapshotStatus `json:"status,omitzero"`
}

// SchedulingPolicySnapshotList is a list of SchedulingPolicySnapshots.
//
// +kubebuilder:object:root=true
type SchedulingPolicySnapshotList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SchedulingPolicySnapshot `json:"items"`
}

// SchedulingPolicySnapshotSpec is a policy at a point in time.
type SchedulingPolicySnapshotSpec struct {
	// The policy without the number of clusters, which is in an annotation. Without a policy all clusters are picked.
	Policy *PlacementPolicy `json:"policy,omitempty"`
	// The digest of the policy.
	PolicyHash []byte `json:"policyHash"`
}

// SchedulingPolicySnapshotStatus has the clusters that a policy picked.
type SchedulingPolicySnapshotStatus struct {
	// The generation of the placement for which the clusters were picked.
	// +optional
	ObservedCRPGeneration int64 `json:"observedCRPGeneration"`
	// The clusters that targetClusters leaves out. Absent if the list is complete. Not in KubeFleet.
	ClusterListing *ClusterListing `json:"clusterListing,omitempty"`
	// Scheduled.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The picked clusters, and why others were not picked.
	// +kubebuilder:validation:MaxItems=1000
	ClusterDecisions []ClusterDecision `json:"targetClusters,omitempty"`
}

// ClusterDecision says whether and why a cluster was picked.
type ClusterDecision struct {
	// The name of the cluster.
	ClusterName string `json:"clusterName"`
	// Whether the cluster was picked.
	Selected bool `json:"selected"`
	// How PickN ranked the cluster.
	ClusterScore *ClusterScore `json:"clusterScore,omitempty"`
	// Why the cluster was picked or not.
	Reason string `json:"reason"`
}

// ClusterScore is the rank of a cluster for PickN.
type ClusterScore struct {
	// The points for preferences.
	AffinityScore *int32 `json:"affinityScore,omitempty"`
	// The points for spreading.
	TopologySpreadScore *int32 `json:"priorityScore,omitempty"`
}

// ClusterResourceBinding says that a ClusterResourcePlacement picked a cluster or has objects there. The hub writes it
// for kubectl fleet draincluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourcebindings,scope=Cluster,shortName=crb,categories={fleet,fleet-placement}
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The cluster.
	Spec ResourceBindingSpec `json:"spec"`
}

// ClusterResourceBindingList is a list of ClusterResourceBindings.
//
// +kubebuilder:object:root=true
type ClusterResourceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourceBinding `json:"items"`
}

// ResourceBindingSpec binds a placement to a cluster.
type ResourceBindingSpec struct {
	// Whether the cluster is picked, and whether it may have objects of the placement.
	State BindingState `json:"state"`
	// The name of the cluster.
	TargetCluster string `json:"targetCluster"`
}

// BindingState is the state of a placement on a cluster.
//
// +kubebuilder:validation:Enum=Scheduled;Bound;Unscheduled
type BindingState string

// The states of a binding.
const (
	// BindingStateScheduled: the cluster is picked and has nothing yet.
	BindingStateScheduled BindingState = "Scheduled"
	// BindingStateBound: the cluster is picked and may have objects.
	BindingStateBound BindingState = "Bound"
	// BindingStateUnscheduled: the cluster is no longer picked and may have objects.
	BindingStateUnscheduled BindingState = "Unscheduled"
)
