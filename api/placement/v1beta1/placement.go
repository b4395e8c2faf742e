package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterResourcePlacement selects objects of the hub and places them on clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterresourceplacements,scope=Cluster,shortName=crp,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Gen",type=string,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Type",type=string,priority=1,JSONPath=`.spec.policy.placementType`
// +kubebuilder:printcolumn:name="Scheduled",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementScheduled")].status`
// +kubebuilder:printcolumn:name="Scheduled-Gen",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementScheduled")].observedGeneration`
// +kubebuilder:printcolumn:name="Work-Synchronized",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementWorkSynchronized")].status`
// +kubebuilder:printcolumn:name="Work-Synchronized-Gen",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementWorkSynchronized")].observedGeneration`
// +kubebuilder:printcolumn:name="Applied",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementApplied")].status`
// +kubebuilder:printcolumn:name="Diff-Reported",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementDiffReported")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementAvailable")].status`
// +kubebuilder:printcolumn:name="Available-Gen",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterResourcePlacementAvailable")].observedGeneration`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) < 64",message="the name field cannot have length exceeding 63"
type ClusterResourcePlacement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state of the placement.
	// +kubebuilder:validation:XValidation:rule="self.statusReportingScope == oldSelf.statusReportingScope",message="statusReportingScope is immutable"
	// +kubebuilder:validation:XValidation:rule="self.statusReportingScope != 'NamespaceAccessible' || self.resourceSelectors.filter(s, s.kind == 'Namespace').size() == 1",message="when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required"
	// +kubebuilder:validation:XValidation:rule="self.resourceSelectors.filter(s, s.kind == 'Namespace' && s.group == '' && s.selectionScope == 'NamespaceWithResourceSelectors').size() <= 1",message="only one namespace selector with NamespaceWithResourceSelectors mode is allowed"
	// +kubebuilder:validation:XValidation:rule="self.resourceSelectors.all(s, s.selectionScope != 'NamespaceWithResourceSelectors' || s.kind == 'Namespace' && has(s.name) && s.name != '')",message="namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)"
	// +kubebuilder:validation:XValidation:rule="!self.resourceSelectors.exists(s, s.selectionScope == 'NamespaceWithResourceSelectors') || self.resourceSelectors.filter(s, s.kind == 'Namespace' && s.group == '').size() == 1",message="when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)"
	Spec PlacementSpec `json:"spec"`
	// The observed state of the placement.
	Status PlacementStatus `json:"status,omitzero"`
}

// ClusterResourcePlacementList is a list of ClusterResourcePlacements.
//
// +kubebuilder:object:root=true
type ClusterResourcePlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterResourcePlacement `json:"items"`
}

// ResourcePlacement selects objects of its own namespace and places them on clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=resourceplacements,scope=Namespaced,shortName=rp,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Gen",type=string,JSONPath=`.metadata.generation`
// +kubebuilder:printcolumn:name="Type",type=string,priority=1,JSONPath=`.spec.policy.placementType`
// +kubebuilder:printcolumn:name="Scheduled",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementScheduled")].status`
// +kubebuilder:printcolumn:name="Scheduled-Gen",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementScheduled")].observedGeneration`
// +kubebuilder:printcolumn:name="Work-Synchronized",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementWorkSynchronized")].status`
// +kubebuilder:printcolumn:name="Work-Synchronized-Gen",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementWorkSynchronized")].observedGeneration`
// +kubebuilder:printcolumn:name="Applied",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementApplied")].status`
// +kubebuilder:printcolumn:name="Diff-Reported",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementDiffReported")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementAvailable")].status`
// +kubebuilder:printcolumn:name="Available-Gen",type=string,JSONPath=`.status.conditions[?(@.type=="ResourcePlacementAvailable")].observedGeneration`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) < 64",message="the name field cannot have length exceeding 63"
type ResourcePlacement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state of the placement.
	// +kubebuilder:validation:XValidation:rule="!self.resourceSelectors.exists(s, s.kind == 'Namespace' && s.group == '')",message="a ResourcePlacement cannot select namespaces"
	Spec PlacementSpec `json:"spec"`
	// The observed state of the placement.
	Status PlacementStatus `json:"status,omitzero"`
}

// ResourcePlacementList is a list of ResourcePlacements.
//
// +kubebuilder:object:root=true
type ResourcePlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ResourcePlacement `json:"items"`
}

// PlacementSpec is the desired state of a placement.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.policy) || has(self.policy)",message="policy cannot be removed once set"
// +kubebuilder:validation:XValidation:rule="has(oldSelf.policy) || !has(self.policy) || self.policy.placementType == 'PickAll'",message="placement type is immutable"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.strategy) || oldSelf.strategy.type != 'External' || (has(self.strategy) && self.strategy.type == 'External')",message="cannot change rollout strategy type from 'External' to other types"
type PlacementSpec struct {
	// The objects to place. Each object may be selected once.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:XValidation:rule="!(has(self.name) && size(self.name) > 0 && has(self.labelSelector))",message="name and labelSelector are mutually exclusive in a resource selector"
	ResourceSelectors []ResourceSelectorTerm `json:"resourceSelectors"`
	// The clusters to place the objects on; all clusters if there is no policy. A policy cannot be removed.
	// +kubebuilder:validation:XValidation:rule="self.placementType == oldSelf.placementType",message="placement type is immutable"
	// +kubebuilder:validation:XValidation:rule="self.placementType != 'PickFixed' || !has(self.affinity) && !has(self.numberOfClusters) && (!has(self.topologySpreadConstraints) || size(self.topologySpreadConstraints) == 0) && (!has(self.tolerations) || size(self.tolerations) == 0)",message="affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed"
	// +kubebuilder:validation:XValidation:rule="self.placementType != 'PickAll' || (!has(self.clusterNames) || size(self.clusterNames) == 0) && !has(self.numberOfClusters) && (!has(self.topologySpreadConstraints) || size(self.topologySpreadConstraints) == 0)",message="clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll"
	// +kubebuilder:validation:XValidation:rule="self.placementType != 'PickN' || (!has(self.clusterNames) || size(self.clusterNames) == 0) && has(self.numberOfClusters)",message="clusterNames cannot be set and numberOfClusters must be set when placementType is PickN"
	// +kubebuilder:validation:XValidation:rule="self.placementType != 'PickAll' || !has(self.affinity) || !has(self.affinity.clusterAffinity) || !has(self.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution) || size(self.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution) == 0",message="PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll"
	// +kubebuilder:validation:XValidation:rule="!has(oldSelf.tolerations) || (has(self.tolerations) ? oldSelf.tolerations.all(t, t in self.tolerations) : size(oldSelf.tolerations) == 0)",message="tolerations have been updated/deleted, only additions to tolerations are allowed"
	Policy *PlacementPolicy `json:"policy,omitempty"`
	// How changes reach the clusters.
	Strategy RolloutStrategy `json:"strategy,omitzero"`
	// Parts of the hub's objects that clusters get besides. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	Carry []Carry `json:"carry,omitempty"`
	// How many resource snapshots the hub keeps.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
	// Whether people see the status in the selected namespace, too.
	// +kubebuilder:default=ClusterScopeOnly
	StatusReportingScope StatusReportingScope `json:"statusReportingScope,omitempty"`
}

// Carry names a part of the hub's objects that the hub leaves out unless a placement asks for it.
//
// +kubebuilder:validation:Enum=Defaulted;Owned
type Carry string

// The parts that a placement may ask for.
const (
	// CarryDefaulted are fields that the hub's API server filled in, such as replicas.
	CarryDefaulted Carry = "Defaulted"
	// CarryOwned are objects that a controller of the hub made for another object.
	CarryOwned Carry = "Owned"
)

// StatusReportingScope is where people see the status of a ClusterResourcePlacement.
//
// +kubebuilder:validation:Enum=ClusterScopeOnly;NamespaceAccessible
type StatusReportingScope string

// The scopes of a status.
const (
	// ClusterScopeOnly reports the status in the placement alone.
	ClusterScopeOnly StatusReportingScope = "ClusterScopeOnly"
	// NamespaceAccessible reports it in a ClusterResourcePlacementStatus of the namespace, too.
	NamespaceAccessible StatusReportingScope = "NamespaceAccessible"
)

// ResourceSelectorTerm selects objects of one kind, all of them or by name or labels.
type ResourceSelectorTerm struct {
	// The API group; empty for the core group.
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group"`
	// The version of the group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// The kind.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// The name of one object. An override must have it.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Selects objects by their labels. Without a name and a labelSelector the term selects all objects of the kind.
	// An override must not have it.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// The objects that a selected Namespace brings.
	// +kubebuilder:default=NamespaceWithResources
	SelectionScope SelectionScope `json:"selectionScope,omitempty"`
}

// SelectionScope says which objects come with a selected Namespace.
//
// +kubebuilder:validation:Enum=NamespaceOnly;NamespaceWithResources;NamespaceWithResourceSelectors
type SelectionScope string

// The scopes of a selection.
const (
	// NamespaceOnly selects the Namespace alone.
	NamespaceOnly SelectionScope = "NamespaceOnly"
	// NamespaceWithResources selects the Namespace and everything in it.
	NamespaceWithResources SelectionScope = "NamespaceWithResources"
	// NamespaceWithResourceSelectors selects the Namespace and the objects in it that other selectors pick.
	NamespaceWithResourceSelectors SelectionScope = "NamespaceWithResourceSelectors"
)

// RolloutStrategy says how changes of a placement reach its clusters.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type != 'External'",message="rollingUpdateConifg is not valid for ExternalRollout strategy type"
type RolloutStrategy struct {
	// RollingUpdate rolls out each change by itself. External waits for staged update runs.
	// +kubebuilder:default=RollingUpdate
	Type RolloutStrategyType `json:"type,omitempty"`
	// Settings of RollingUpdate.
	RollingUpdate *RollingUpdateConfig `json:"rollingUpdate,omitempty"`
	// How objects are applied to clusters, and how differences are handled.
	ApplyStrategy *ApplyStrategy `json:"applyStrategy,omitempty"`
	// Whether clusters keep the objects after the placement is deleted.
	DeleteStrategy *DeleteStrategy `json:"deleteStrategy,omitempty"`
	// Whether the status of placed objects is copied back to the hub.
	ReportBackStrategy *ReportBackStrategy `json:"reportBackStrategy,omitempty"`
}

// RolloutStrategyType is how changes reach clusters: by themselves or by staged update runs.
//
// +kubebuilder:validation:Enum=RollingUpdate;External
type RolloutStrategyType string

// The types of a rollout strategy.
const (
	// RollingUpdateRolloutStrategyType rolls out each change by itself.
	RollingUpdateRolloutStrategyType RolloutStrategyType = "RollingUpdate"
	// ExternalRolloutStrategyType leaves rollouts to staged update runs.
	ExternalRolloutStrategyType RolloutStrategyType = "External"
)

// RollingUpdateConfig bounds a rolling update.
type RollingUpdateConfig struct {
	// How many clusters may be without the placed objects at a time, as a number or a percentage.
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxUnavailable must be greater than or equal to 0"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// How many clusters may have the placed objects beyond the wanted number, as a number or a percentage.
	// Slipway updates clusters in place and ignores it.
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxSurge must be greater than or equal to 0"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// How many seconds to wait for an object whose health cannot be observed.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=0
	UnavailablePeriodSeconds *int `json:"unavailablePeriodSeconds,omitempty"`
}

// ApplyStrategy says how objects are applied to clusters, and how differences are handled.
//
// +kubebuilder:validation:XValidation:rule="!has(self.serverSideApplyConfig) || self.type == 'ServerSideApply'",message="serverSideApplyConfig is only valid for ServerSideApply strategy type"
type ApplyStrategy struct {
	// Whether fields count as a difference that the placed object does not have.
	// +kubebuilder:default=PartialComparison
	ComparisonOption ComparisonOptionType `json:"comparisonOption,omitempty"`
	// Whether an object that was changed on the cluster is applied again.
	// +kubebuilder:default=Always
	WhenToApply WhenToApplyType `json:"whenToApply,omitempty"`
	// How objects are applied. ClientSideApply is carried out as a server-side apply with force. ReportDiff reports
	// differences and applies nothing.
	// +kubebuilder:default=ClientSideApply
	Type ApplyStrategyType `json:"type,omitempty"`
	// Whether several placements may place the same object.
	AllowCoOwnership bool `json:"allowCoOwnership,omitempty"`
	// Settings of ServerSideApply.
	ServerSideApplyConfig *ServerSideApplyConfig `json:"serverSideApplyConfig,omitempty"`
	// Whether the placement takes over an object that exists on the cluster already.
	// +kubebuilder:default=Always
	WhenToTakeOver WhenToTakeOverType `json:"whenToTakeOver,omitempty"`
}

// ComparisonOptionType is which fields of an object are compared.
//
// +kubebuilder:validation:Enum=PartialComparison;FullComparison
type ComparisonOptionType string

// The comparisons.
const (
	// ComparisonOptionTypePartialComparison compares the fields that the placed object has.
	ComparisonOptionTypePartialComparison ComparisonOptionType = "PartialComparison"
	// ComparisonOptionTypeFullComparison compares all fields.
	ComparisonOptionTypeFullComparison ComparisonOptionType = "FullComparison"
)

// WhenToApplyType is when an object is applied again.
//
// +kubebuilder:validation:Enum=Always;IfNotDrifted
type WhenToApplyType string

// The values of WhenToApplyType: when objects are applied again.
const (
	// WhenToApplyTypeAlways restores objects that were changed on a cluster.
	WhenToApplyTypeAlways WhenToApplyType = "Always"
	// WhenToApplyTypeIfNotDrifted reports such objects and does not write them.
	WhenToApplyTypeIfNotDrifted WhenToApplyType = "IfNotDrifted"
)

// ApplyStrategyType is how objects are applied.
//
// +kubebuilder:validation:Enum=ClientSideApply;ServerSideApply;ReportDiff
type ApplyStrategyType string

// The ways to apply objects.
const (
	// ApplyStrategyTypeClientSideApply takes fields from other managers.
	ApplyStrategyTypeClientSideApply ApplyStrategyType = "ClientSideApply"
	// ApplyStrategyTypeServerSideApply leaves fields to other managers unless it is forced.
	ApplyStrategyTypeServerSideApply ApplyStrategyType = "ServerSideApply"
	// ApplyStrategyTypeReportDiff reports differences and applies nothing.
	ApplyStrategyTypeReportDiff ApplyStrategyType = "ReportDiff"
)

// ServerSideApplyConfig has the settings of ServerSideApply.
type ServerSideApplyConfig struct {
	// Whether fields are taken from other managers. Without it, an object is not applied if another manager has
	// another value for one of its fields.
	// +optional
	ForceConflicts bool `json:"force"`
}

// WhenToTakeOverType is when a placement takes over an object that exists on a cluster.
//
// +kubebuilder:validation:Enum=Always;IfNoDiff;Never
type WhenToTakeOverType string

// The conditions of a take-over.
const (
	// WhenToTakeOverTypeAlways takes over each object.
	WhenToTakeOverTypeAlways WhenToTakeOverType = "Always"
	// WhenToTakeOverTypeIfNoDiff takes over an object if it does not differ.
	WhenToTakeOverTypeIfNoDiff WhenToTakeOverType = "IfNoDiff"
	// WhenToTakeOverTypeNever takes over no object.
	WhenToTakeOverTypeNever WhenToTakeOverType = "Never"
)

// DeleteStrategy says whether clusters keep the objects of a deleted placement.
type DeleteStrategy struct {
	// Whether the objects are deleted or kept.
	// +kubebuilder:default=Delete
	PropagationPolicy DeletePropagationPolicy `json:"propagationPolicy,omitempty"`
}

// DeletePropagationPolicy says which objects of a deleted placement are removed from the clusters.
//
// +kubebuilder:validation:Enum=Delete;Abandon;DeleteCreated
type DeletePropagationPolicy string

// The policies of a deletion.
const (
	// DeletePropagationPolicyDelete deletes the objects.
	DeletePropagationPolicyDelete DeletePropagationPolicy = "Delete"
	// DeletePropagationPolicyAbandon keeps the objects.
	DeletePropagationPolicyAbandon DeletePropagationPolicy = "Abandon"
	// DeletePropagationPolicyDeleteCreated deletes the objects that the placement created and keeps those that it took
	// over. Not in KubeFleet.
	DeletePropagationPolicyDeleteCreated DeletePropagationPolicy = "DeleteCreated"
)

// ReportBackStrategy says whether and where the status of placed objects is copied on the hub.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Mirror' || has(self.destination)",message="when reportBackStrategy.type is 'Mirror', a destination must be specified"
type ReportBackStrategy struct {
	// Whether the status is copied.
	// +kubebuilder:default=Disabled
	Type ReportBackStrategyType `json:"type"`
	// The destination of the copy. Mirror needs it.
	Destination *ReportBackDestination `json:"destination,omitempty"`
}

// ReportBackStrategyType is whether the status of placed objects is copied back.
//
// +kubebuilder:validation:Enum=Disabled;Mirror
type ReportBackStrategyType string

// The types of a report back.
const (
	// ReportBackStrategyTypeDisabled copies nothing.
	ReportBackStrategyTypeDisabled ReportBackStrategyType = "Disabled"
	// ReportBackStrategyTypeMirror copies the status as it is on the cluster.
	ReportBackStrategyTypeMirror ReportBackStrategyType = "Mirror"
)

// ReportBackDestination is the destination of the copied status of a placed object.
//
// +kubebuilder:validation:Enum=OriginalResource;WorkAPI
type ReportBackDestination string

// The destinations of a report back.
const (
	// ReportBackDestinationOriginalResource is the object of the hub that was placed.
	ReportBackDestinationOriginalResource ReportBackDestination = "OriginalResource"
	// ReportBackDestinationWorkAPI is a Work of KubeFleet. A hub of Slipway has none and writes nothing.
	ReportBackDestinationWorkAPI ReportBackDestination = "WorkAPI"
)
