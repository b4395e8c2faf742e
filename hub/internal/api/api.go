// Package api has the names of the Fleet API: kinds, labels, annotations, finalizers, condition
// types and reasons. They are KubeFleet's names, except those marked as Slipway's own.
//
// The package also converts parts of objects to the Go types of the Fleet API and back. A
// condition, or a single field of a status, is read from the map instead, because the status of a
// run or a placement may list a thousand clusters, and because a status that is changed keeps the
// fields and conditions of other clients.
package api

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The groups and versions of the Fleet API. Objects are written in Version; the other served
// version has the same schema.
const (
	placementGroup = "placement.kubernetes-fleet.io"
	clusterGroup   = "cluster.kubernetes-fleet.io"
	Version        = "v1beta1"
)

// The kinds that have a namespaced twin, by the twin's name.
const (
	PlacementKind = "ResourcePlacement"
	SnapshotKind  = "ResourceSnapshot"
	PolicyKind    = "SchedulingPolicySnapshot"
	StrategyKind  = "StagedUpdateStrategy"
	RunKind       = "StagedUpdateRun"
	ApprovalKind  = "ApprovalRequest"

	OverrideKind         = "ResourceOverride"
	OverrideSnapshotKind = "ResourceOverrideSnapshot"
)

// The kinds without a namespaced twin, by their names without the prefix Cluster.
const (
	EvictionKind = "ResourcePlacementEviction"
	BudgetKind   = "ResourcePlacementDisruptionBudget"
	BindingKind  = "ResourceBinding"
)

// memberKind is the one kind of clusterGroup, which has no twin.
const memberKind = "MemberCluster"

// Scope distinguishes cluster-scoped kinds from their namespaced twins.
type Scope bool

// The scopes.
const (
	ClusterScope   Scope = false
	NamespaceScope Scope = true
)

// Kind returns the name of a kind in the scope.
func (s Scope) Kind(base string) string {
	if s == NamespaceScope {
		return base
	}
	return "Cluster" + base
}

// GVK returns the kind in the scope for the name of a namespaced twin.
func (s Scope) GVK(base string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: placementGroup, Version: Version, Kind: s.Kind(base)}
}

// GVR returns the resource in the scope for the name of a namespaced twin.
func (s Scope) GVR(base string) schema.GroupVersionResource {
	plural := strings.ToLower(s.Kind(base))
	if base == StrategyKind {
		plural = strings.TrimSuffix(plural, "y") + "ie"
	}
	return schema.GroupVersionResource{Group: placementGroup, Version: Version, Resource: plural + "s"}
}

// ReplicaGVK returns the kind that shows the status of a placement in a namespace.
func ReplicaGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: placementGroup, Version: Version, Kind: "ClusterResourcePlacementStatus"}
}

// ReplicaGVR returns the resource of that kind.
func ReplicaGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: placementGroup, Version: Version, Resource: "clusterresourceplacementstatuses"}
}

// MemberGVK returns the kind of members.
func MemberGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: clusterGroup, Version: Version, Kind: memberKind}
}

// MemberGVR returns the resource of members.
func MemberGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: clusterGroup, Version: Version, Resource: "memberclusters"}
}

// Labels and annotations.
const (
	fleetPrefix = "kubernetes-fleet.io/"

	LabelRun            = fleetPrefix + "targetUpdateRun"
	LabelStage          = fleetPrefix + "targetUpdatingStage"
	LabelTask           = fleetPrefix + "taskType"
	LabelLatestApproval = fleetPrefix + "isLatestUpdateRunApproval"

	// LabelParent names the placement of a snapshot, in both scopes.
	LabelParent        = fleetPrefix + "parent-CRP"
	LabelLatest        = fleetPrefix + "is-latest-snapshot"
	LabelResourceIndex = fleetPrefix + "resource-index"
	LabelPolicyIndex   = fleetPrefix + "policy-index"

	// LabelRollbackOf names the run that a run rolls back. Only the hub sets it, on runs that the
	// engine created.
	LabelRollbackOf = "slipway.dev/rollback-of"
	// LabelIrreversible "true" marks a snapshot that no rollback may pass; "false" removes the
	// mark.
	LabelIrreversible = "slipway.dev/irreversible"

	// LabelOverride names the override of a snapshot.
	LabelOverride      = fleetPrefix + "parent-resource-override"
	LabelOverrideIndex = fleetPrefix + "override-index"
	// LabelMemberName is on each MemberCluster and holds its name.
	LabelMemberName = fleetPrefix + "member-name"

	AnnotationHash       = fleetPrefix + "resource-hash"
	AnnotationEnveloped  = fleetPrefix + "number-of-enveloped-object"
	AnnotationParts      = fleetPrefix + "number-of-resource-snapshots"
	AnnotationPart       = fleetPrefix + "subindex-of-resource-snapshot"
	AnnotationClusters   = fleetPrefix + "number-of-clusters"
	AnnotationGeneration = fleetPrefix + "CRP-generation"
	// AnnotationOmitted is on an object of a snapshot that is too big to be shown, and holds its
	// size.
	AnnotationOmitted = "slipway.dev/omitted"
)

// The values of LabelTask.
const (
	TaskBefore = "beforeStage"
	TaskAfter  = "afterStage"
)

// Finalizers.
const (
	FinalizerRun       = fleetPrefix + "stagedupdaterun-finalizer"
	FinalizerPlacement = fleetPrefix + "crp-cleanup"
)

// DeleteStage is the name in a status of the stage that cleans clusters.
const DeleteStage = fleetPrefix + "deleteStage"

// Types of conditions.
const (
	ConditionInitialized = "Initialized"
	ConditionProgressing = "Progressing"
	ConditionSucceeded   = "Succeeded"
	ConditionStarted     = "Started"
	ConditionRollback    = "RollbackStarted" // Slipway's own

	ConditionRequestCreated  = "ApprovalRequestCreated"
	ConditionRequestApproved = "ApprovalRequestApproved"
	ConditionWaitElapsed     = "WaitTimeElapsed"
	ConditionApproved        = "Approved"
	ConditionRejected        = "Rejected" // Slipway's own
	ConditionAccepted        = "ApprovalAccepted"

	// ConditionScheduled and the types below it have the name of the kind as a prefix on a
	// placement, and no prefix on a cluster of a placement.
	ConditionScheduled    = "Scheduled"
	ConditionRollout      = "RolloutStarted"
	ConditionOverridden   = "Overridden"
	ConditionSynchronized = "WorkSynchronized"
	ConditionApplied      = "Applied"
	ConditionAvailable    = "Available"
	ConditionDiffReported = "DiffReported"
	ConditionStatusSynced = "StatusSynced" // of a placement alone

	ConditionValid    = "Valid"
	ConditionExecuted = "Executed"

	ConditionReadyToJoin = "ReadyToJoin"
	ConditionJoined      = "Joined"
	ConditionHealthy     = "Healthy"

	ConditionNamespaceCollectionSucceeded = "NamespaceCollectionSucceeded"
)

// Reasons of a run's conditions. Initializing, Aborted, Superseded, Forgotten and the reasons of a
// rollback are Slipway's own.
const (
	ReasonInitialized      = "UpdateRunInitializedSuccessfully"
	ReasonInitializeFailed = "UpdateRunInitializedFailed"
	ReasonRunProgressing   = "UpdateRunProgressing"
	ReasonRunWaiting       = "UpdateRunWaiting"
	ReasonRunStuck         = "UpdateRunStuck"
	ReasonRunStopping      = "UpdateRunStopping"
	ReasonRunStopped       = "UpdateRunStopped"
	ReasonRunFailed        = "UpdateRunFailed"
	ReasonRunSucceeded     = "UpdateRunSucceeded"
	ReasonRunAborted       = "UpdateRunAborted"
	ReasonRunSuperseded    = "UpdateRunSuperseded"
	ReasonInitializing     = "UpdateRunInitializing"
	ReasonRunForgotten     = "UpdateRunForgotten"

	ReasonRollbackRequested = "UpdateRunRollbackRequested"
	ReasonRollbackStarted   = "UpdateRunRollbackStarted"
	ReasonRollbackRefused   = "UpdateRunRollbackRefused"
)

// Reasons of an eviction's conditions.
const (
	ReasonEvictionValid       = "ClusterResourcePlacementEvictionValid"
	ReasonEvictionInvalid     = "ClusterResourcePlacementEvictionInvalid"
	ReasonEvictionExecuted    = "ClusterResourcePlacementEvictionExecuted"
	ReasonEvictionNotExecuted = "ClusterResourcePlacementEvictionNotExecuted"
)

// Reasons of a stage's conditions.
const (
	ReasonStageStarted   = "StageUpdatingStarted"
	ReasonStageWaiting   = "StageUpdatingWaiting"
	ReasonStageStopping  = "StageUpdatingStopping"
	ReasonStageStopped   = "StageUpdatingStopped"
	ReasonStageFailed    = "StageUpdatingFailed"
	ReasonStageSucceeded = "StageUpdatingSucceeded"
	ReasonStageSkipped   = "StageUpdatingSkippedNoClusters"
)

// Reasons of the conditions of a stage's tasks. Unless the hub's compatibility setting says
// otherwise, reasons that begin with StageTask get the prefix Before or After. NotElapsed,
// NameTaken, Rejected and Skipped are Slipway's own.
const (
	ReasonTaskCreated    = "StageTaskApprovalRequestCreated"
	ReasonTaskNameTaken  = "StageTaskApprovalRequestNameTaken"
	ReasonTaskApproved   = "StageTaskApprovalRequestApproved"
	ReasonTaskRejected   = "StageTaskApprovalRequestRejected"
	ReasonTaskElapsed    = "AfterStageTaskWaitTimeElapsed"
	ReasonTaskNotElapsed = "AfterStageTaskWaitTimeNotElapsed"
	ReasonTaskSkipped    = "StageTaskSkipped"
)

// Reasons of the conditions of a run's clusters. All reasons after Succeeded are Slipway's own,
// because KubeFleet shows no intermediate states.
const (
	ReasonClusterStarted   = "ClusterUpdatingStarted"
	ReasonClusterFailed    = "ClusterUpdatingFailed"
	ReasonClusterSucceeded = "ClusterUpdatingSucceeded"
	ReasonClusterSkipped   = "ClusterUpdatingSkipped"
	ReasonClusterApplying  = "ClusterUpdatingApplying"
	ReasonClusterSettling  = "ClusterUpdatingNotHealthyYet"
	ReasonClusterRetrying  = "ClusterUpdatingRetrying"
	ReasonClusterPending   = "ClusterUpdatingPending"
)

// Reasons of an approval request. Rejected, which people write too, Refused and Unvouched are
// Slipway's own.
const (
	ReasonAccepted        = "ApprovalRequestApprovalAccepted"
	ReasonRequestRejected = "ApprovalRequestRejected"
	ReasonRefused         = "ApprovalRequestApprovalRefused"
	// ReasonUnvouched: no answer counts, because the admission policies have changed.
	ReasonUnvouched = "ApprovalRequestUnvouched"
	// ReasonRejected makes Approved=False a rejection.
	ReasonRejected = "Rejected"
)

// Reasons of a placement's conditions.
const (
	ReasonFulfilled         = "SchedulingPolicyFulfilled"
	ReasonUnfulfilled       = "SchedulingPolicyUnfulfilled"
	ReasonSchedulePending   = "SchedulePending"
	ReasonInvalidSelectors  = "InvalidResourceSelectors"
	ReasonExternal          = "RolloutControlledByExternalController"
	ReasonRolloutStarted    = "RolloutStarted"
	ReasonRolloutNotStarted = "RolloutNotStartedYet"
	ReasonRolloutUnknown    = "RolloutStartedUnknown"
	ReasonNoOverride        = "NoOverrideSpecified"
	ReasonOverrideFailed    = "OverriddenFailed"
	ReasonOverridden        = "OverriddenSucceeded"
	ReasonSynchronized      = "WorkSynchronized"
	ReasonNotSynchronized   = "WorkNotSynchronizedYet"
	ReasonApplySucceeded    = "ApplySucceeded"
	ReasonApplyPending      = "ApplyPending"
	ReasonApplyFailed       = "ApplyFailed"
	ReasonAvailable         = "ResourceAvailable"
	ReasonStatusSynced      = "StatusSyncSucceeded"
	ReasonStatusNotSynced   = "StatusSyncFailed"
	ReasonNotAvailable      = "ResourceNotAvailableYet"
	ReasonDiffReported      = "DiffReportingCompleted"
	ReasonDiffNotReported   = "DiffReportingIncompleteOrFailed"
)

// Reasons of the conditions of a placement's clusters that differ from the reasons of the
// placement.
const (
	ReasonScheduled        = "Scheduled"
	ReasonScheduleFailed   = "ScheduleFailed"
	ReasonWorkSynced       = "AllWorkSynced"
	ReasonWorkNotSynced    = "SyncWorkFailed"
	ReasonWorkApplied      = "AllWorkHaveBeenApplied"
	ReasonWorkNotApplied   = "NotAllWorkHaveBeenApplied"
	ReasonWorkApplying     = "ApplyInProgress"
	ReasonWorkAvailable    = "AllWorkAreAvailable"
	ReasonWorkNotTrackable = "NotAllWorkAreAvailabilityTrackable"
	ReasonWorkNotAvailable = "NotAllWorkAreAvailable"
	ReasonWorkDiffReported = "AllWorkHaveDiffReported"
	ReasonWorkNotReported  = "NotAllWorkHaveDiffReported"

	ReasonObjectNotApplied   = "ManifestApplyFailed"
	ReasonObjectNotDecoded   = "DecodingErred"
	ReasonGenerateName       = "FoundGenerateName"
	ReasonDuplicated         = "Duplicated"
	ReasonWrongScope         = "WrongScope" // Slipway's own
	ReasonObjectNotAvailable = "ManifestNotAvailableYet"
)

// Reasons of the conditions of a member's agent.
const (
	ReasonAgentJoined    = "InternalMemberClusterJoined"
	ReasonAgentHealthy   = "InternalMemberClusterHealthy"
	ReasonAgentUnhealthy = "InternalMemberClusterUnhealthy"
)

// Reasons of a member's conditions. Unreachable and NotReached are Slipway's own.
const (
	ReasonReadyToJoin = "MemberClusterReadyToJoin"
	ReasonJoined      = "MemberClusterJoined"
	ReasonUnreachable = "MemberClusterUnreachable"
	ReasonNotReached  = "MemberClusterNotReachedYet"
	ReasonHealthy     = "MemberClusterHealthy"

	ReasonNamespacesCollected = "Succeeded"
	ReasonNamespacesDegraded  = "Degraded"
)
