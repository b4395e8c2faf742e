package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The API group of the types, and their version.
const (
	GroupName = "placement.kubernetes-fleet.io"
	Version   = "v1beta1"
)

// GroupVersion returns the API group and version of the types.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: Version}
}

// AddToScheme registers the kinds of the group with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&ApprovalRequest{}, &ApprovalRequestList{},
		&ClusterApprovalRequest{}, &ClusterApprovalRequestList{},
		&ClusterResourceBinding{}, &ClusterResourceBindingList{},
		&ClusterResourceEnvelope{}, &ClusterResourceEnvelopeList{},
		&ClusterResourceOverride{}, &ClusterResourceOverrideList{},
		&ClusterResourceOverrideSnapshot{}, &ClusterResourceOverrideSnapshotList{},
		&ClusterResourcePlacement{}, &ClusterResourcePlacementList{},
		&ClusterResourcePlacementDisruptionBudget{}, &ClusterResourcePlacementDisruptionBudgetList{},
		&ClusterResourcePlacementEviction{}, &ClusterResourcePlacementEvictionList{},
		&ClusterResourcePlacementStatus{}, &ClusterResourcePlacementStatusList{},
		&ClusterResourceSnapshot{}, &ClusterResourceSnapshotList{},
		&ClusterSchedulingPolicySnapshot{}, &ClusterSchedulingPolicySnapshotList{},
		&ClusterStagedUpdateRun{}, &ClusterStagedUpdateRunList{},
		&ClusterStagedUpdateStrategy{}, &ClusterStagedUpdateStrategyList{},
		&ResourceEnvelope{}, &ResourceEnvelopeList{},
		&ResourceOverride{}, &ResourceOverrideList{},
		&ResourceOverrideSnapshot{}, &ResourceOverrideSnapshotList{},
		&ResourcePlacement{}, &ResourcePlacementList{},
		&ResourceSnapshot{}, &ResourceSnapshotList{},
		&SchedulingPolicySnapshot{}, &SchedulingPolicySnapshotList{},
		&StagedUpdateRun{}, &StagedUpdateRunList{},
		&StagedUpdateStrategy{}, &StagedUpdateStrategyList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
