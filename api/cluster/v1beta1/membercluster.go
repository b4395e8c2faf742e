package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MemberCluster is a cluster on which objects can be placed. Strategies and policies select it by its labels.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=memberclusters,scope=Cluster,shortName=cluster,categories={fleet,fleet-cluster}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="Joined")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Member-Agent-Last-Seen",type=date,JSONPath=`.status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat`
// +kubebuilder:printcolumn:name="Node-Count",type=string,JSONPath=`.status.properties.kubernetes-fleet\.io/node-count.value`
// +kubebuilder:printcolumn:name="Available-CPU",type=string,JSONPath=`.status.resourceUsage.available.cpu`
// +kubebuilder:printcolumn:name="Available-Memory",type=string,JSONPath=`.status.resourceUsage.available.memory`
// +kubebuilder:printcolumn:name="Allocatable-CPU",type=string,priority=1,JSONPath=`.status.resourceUsage.allocatable.cpu`
// +kubebuilder:printcolumn:name="Allocatable-Memory",type=string,priority=1,JSONPath=`.status.resourceUsage.allocatable.memory`
// +kubebuilder:printcolumn:name="Healthy",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Healthy")].status`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) < 64",message="metadata.name max length is 63"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state of the member.
	// +optional
	Spec MemberClusterSpec `json:"spec"`
	// The observed state of the member.
	Status MemberClusterStatus `json:"status,omitzero"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MemberCluster `json:"items"`
}

// MemberClusterSpec is the desired state of a member.
type MemberClusterSpec struct {
	// The user that acts for the cluster on the hub. KubeFleet requires it. Slipway reaches clusters from the hub and
	// does not use it.
	Identity *Subject `json:"identity,omitempty"`
	// How many seconds pass between two reports of an agent.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	HeartbeatPeriodSeconds int32 `json:"heartbeatPeriodSeconds,omitempty"`
	// Taints, which keep placements away that do not tolerate them.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="taints must be unique"
	Taints []Taint `json:"taints,omitempty"`
	// How the cluster leaves the fleet.
	DeleteOptions *DeleteOptions `json:"deleteOptions,omitempty"`
}

// Subject is a user, a group or a service account.
//
// +structType=atomic
type Subject struct {
	// User, Group or ServiceAccount.
	Kind string `json:"kind"`
	// The API group of the kind.
	APIGroup string `json:"apiGroup,omitempty"`
	// The name.
	Name string `json:"name"`
	// The namespace of a ServiceAccount.
	Namespace string `json:"namespace,omitempty"`
}

// Taint keeps placements away that do not tolerate it.
type Taint struct {
	// The key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([^/]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^/]*/)?[^/]{0,63}$') || self.matches('/.*/')",message="name part must be no more than 63 bytes"
	// +kubebuilder:validation:XValidation:rule="!self.contains('/') || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/')",message="prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
	Key string `json:"key"`
	// The value.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
	Value string `json:"value,omitempty"`
	// The effect.
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is the effect of a taint on placements that do not tolerate it.
//
// +kubebuilder:validation:Enum=NoSchedule
type TaintEffect string

// TaintEffectNoSchedule keeps placements away that are not on the cluster yet.
const TaintEffectNoSchedule TaintEffect = "NoSchedule"

// DeleteOptions says how a cluster leaves the fleet.
type DeleteOptions struct {
	// Whether it is checked that the cluster can leave.
	// +kubebuilder:default=Strict
	ValidationMode DeleteValidationMode `json:"validationMode,omitempty"`
}

// DeleteValidationMode is whether it is checked that a cluster can leave.
//
// +kubebuilder:validation:Enum=Strict;Skip
type DeleteValidationMode string

// The modes.
const (
	// DeleteValidationModeStrict checks it.
	DeleteValidationModeStrict DeleteValidationMode = "Strict"
	// DeleteValidationModeSkip does not check it.
	DeleteValidationModeSkip DeleteValidationMode = "Skip"
)

// MemberClusterStatus is the observed state of a member.
type MemberClusterStatus struct {
	// Joined, Healthy and ReadyToJoin.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// The namespace of the hub that belongs to the cluster. Not in KubeFleet.
	Namespace string `json:"namespace,omitempty"`
	// The identity of the cluster. It differs if another cluster gets the same name. Not in KubeFleet.
	// +kubebuilder:validation:MaxLength=256
	ObservedIdentity string `json:"observedIdentity,omitempty"`
	// Properties that the cluster reports, by name.
	Properties map[PropertyName]PropertyValue `json:"properties,omitempty"`
	// The resources of the cluster.
	ResourceUsage ResourceUsage `json:"resourceUsage,omitzero"`
	// The namespaces of the cluster, if the hub collects them. The value is the work that created the namespace, or
	// empty.
	Namespaces map[string]string `json:"namespaces,omitempty"`
	// The reports of agents.
	AgentStatus []AgentStatus `json:"agentStatus,omitempty"`
}

// PropertyName is the name of a property of a cluster.
type PropertyName string

// PropertyValue is a property of a cluster.
type PropertyValue struct {
	// The value.
	Value string `json:"value"`
	// When the value was observed.
	ObservationTime metav1.Time `json:"observationTime,omitzero"`
}

// ResourceUsage has the resources of a cluster.
type ResourceUsage struct {
	// All resources.
	Capacity ResourceList `json:"capacity,omitempty"`
	// The resources that workloads may use.
	Allocatable ResourceList `json:"allocatable,omitempty"`
	// The resources that are not in use.
	Available ResourceList `json:"available,omitempty"`
	// When the resources were observed.
	ObservationTime metav1.Time `json:"observationTime,omitzero"`
}

// ResourceList has quantities by the name of the resource.
type ResourceList map[string]resource.Quantity

// AgentStatus is the report of an agent.
type AgentStatus struct {
	// The type of the agent.
	Type AgentType `json:"type"`
	// The conditions of the agent.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// When the agent reported last.
	LastReceivedHeartbeat metav1.Time `json:"lastReceivedHeartbeat,omitzero"`
}

// AgentType is a type of agents.
type AgentType string

// MemberAgent is the agent that reports for a member. In Slipway the hub itself writes this report.
const MemberAgent AgentType = "MemberAgent"
