package hub

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The groups and versions of the Fleet API. Objects are written in version;
// the other one that is served has the same schema.
const (
	placementGroup = "placement.kubernetes-fleet.io"
	clusterGroup   = "cluster.kubernetes-fleet.io"
	version        = "v1beta1"
)

// The kinds that have a namespaced twin, by the twin's name.
const (
	placementKind = "ResourcePlacement"
	snapshotKind  = "ResourceSnapshot"
	policyKind    = "SchedulingPolicySnapshot"
	strategyKind  = "StagedUpdateStrategy"
	runKind       = "StagedUpdateRun"
	approvalKind  = "ApprovalRequest"

	overrideKind         = "ResourceOverride"
	overrideSnapshotKind = "ResourceOverrideSnapshot"
)

// memberKind is the one kind of clusterGroup, which has no twin.
const memberKind = "MemberCluster"

// scope tells the kinds that are not in a namespace from their twins that are.
type scope bool

const (
	clusterScope   scope = false
	namespaceScope scope = true
)

// kind is what a kind is called in the scope.
func (s scope) kind(base string) string {
	if s == namespaceScope {
		return base
	}
	return "Cluster" + base
}

func (s scope) gvk(base string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: placementGroup, Version: version, Kind: s.kind(base)}
}

func (s scope) gvr(base string) schema.GroupVersionResource {
	plural := strings.ToLower(s.kind(base))
	if base == strategyKind {
		plural = strings.TrimSuffix(plural, "y") + "ie"
	}
	return schema.GroupVersionResource{Group: placementGroup, Version: version, Resource: plural + "s"}
}

func memberGVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: clusterGroup, Version: version, Kind: memberKind}
}

func memberGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: clusterGroup, Version: version, Resource: "memberclusters"}
}

// Labels and annotations.
const (
	fleetPrefix = "kubernetes-fleet.io/"

	labelRun            = fleetPrefix + "targetUpdateRun"
	labelStage          = fleetPrefix + "targetUpdatingStage"
	labelTask           = fleetPrefix + "taskType"
	labelLatestApproval = fleetPrefix + "isLatestUpdateRunApproval"

	// labelParent names the placement of a snapshot, in both scopes.
	labelParent        = fleetPrefix + "parent-CRP"
	labelLatest        = fleetPrefix + "is-latest-snapshot"
	labelResourceIndex = fleetPrefix + "resource-index"
	labelPolicyIndex   = fleetPrefix + "policy-index"

	// labelRollbackOf names the run that a run takes back. Only the hub gives it, to
	// runs that the engine made.
	labelRollbackOf = "slipway.dev/rollback-of"
	// labelIrreversible marks a snapshot that nothing is rolled back past, "true", or
	// takes the mark away, "false".
	labelIrreversible = "slipway.dev/irreversible"

	// labelOverride names the override of a snapshot.
	labelOverride      = fleetPrefix + "parent-resource-override"
	labelOverrideIndex = fleetPrefix + "override-index"

	annotationHash       = fleetPrefix + "resource-hash"
	annotationEnveloped  = fleetPrefix + "number-of-enveloped-object"
	annotationParts      = fleetPrefix + "number-of-resource-snapshots"
	annotationPart       = fleetPrefix + "subindex-of-resource-snapshot"
	annotationClusters   = fleetPrefix + "number-of-clusters"
	annotationGeneration = fleetPrefix + "CRP-generation"
	// annotationOmitted stands in an object of a snapshot that is too big to be
	// shown, and says how big it is.
	annotationOmitted = "slipway.dev/omitted"
)

// The values of labelTask.
const (
	taskBefore = "beforeStage"
	taskAfter  = "afterStage"
)

// Finalizers.
const (
	finalizerRun       = fleetPrefix + "stagedupdaterun-finalizer"
	finalizerPlacement = fleetPrefix + "crp-cleanup"
)

// deleteStage is what the stage that cleans clusters is called in a status.
const deleteStage = fleetPrefix + "deleteStage"

// Types of conditions.
const (
	conditionInitialized = "Initialized"
	conditionProgressing = "Progressing"
	conditionSucceeded   = "Succeeded"
	conditionStarted     = "Started"
	conditionRollback    = "RollbackStarted" // Slipway's own

	conditionRequestCreated  = "ApprovalRequestCreated"
	conditionRequestApproved = "ApprovalRequestApproved"
	conditionWaitElapsed     = "WaitTimeElapsed"
	conditionApproved        = "Approved"
	conditionRejected        = "Rejected" // Slipway's own
	conditionAccepted        = "ApprovalAccepted"

	// Those of a placement have the name of its kind before them, those of one
	// of its clusters have not.
	conditionScheduled    = "Scheduled"
	conditionRollout      = "RolloutStarted"
	conditionOverridden   = "Overridden"
	conditionSynchronized = "WorkSynchronized"
	conditionApplied      = "Applied"
	conditionAvailable    = "Available"
	conditionDiffReported = "DiffReported"

	conditionReadyToJoin = "ReadyToJoin"
	conditionJoined      = "Joined"
	conditionHealthy     = "Healthy"
)

// Reasons of a run's conditions. Initializing, Aborted, Superseded, Forgotten and
// those of a rollback are Slipway's own.
const (
	reasonInitialized      = "UpdateRunInitializedSuccessfully"
	reasonInitializeFailed = "UpdateRunInitializedFailed"
	reasonRunProgressing   = "UpdateRunProgressing"
	reasonRunWaiting       = "UpdateRunWaiting"
	reasonRunStuck         = "UpdateRunStuck"
	reasonRunStopping      = "UpdateRunStopping"
	reasonRunStopped       = "UpdateRunStopped"
	reasonRunFailed        = "UpdateRunFailed"
	reasonRunSucceeded     = "UpdateRunSucceeded"
	reasonRunAborted       = "UpdateRunAborted"
	reasonRunSuperseded    = "UpdateRunSuperseded"
	reasonInitializing     = "UpdateRunInitializing"
	reasonRunForgotten     = "UpdateRunForgotten"

	reasonRollbackRequested = "UpdateRunRollbackRequested"
	reasonRollbackStarted   = "UpdateRunRollbackStarted"
	reasonRollbackRefused   = "UpdateRunRollbackRefused"
)

// Reasons of a stage's conditions.
const (
	reasonStageStarted   = "StageUpdatingStarted"
	reasonStageWaiting   = "StageUpdatingWaiting"
	reasonStageStopping  = "StageUpdatingStopping"
	reasonStageStopped   = "StageUpdatingStopped"
	reasonStageFailed    = "StageUpdatingFailed"
	reasonStageSucceeded = "StageUpdatingSucceeded"
	reasonStageSkipped   = "StageUpdatingSkippedNoClusters"
)

// Reasons of the conditions of a stage's tasks have BeforeStageTask or
// AfterStageTask before them. NotElapsed, NameTaken, Rejected and Skipped are Slipway's own.
const (
	reasonBeforeTask = "BeforeStageTask"
	reasonAfterTask  = "AfterStageTask"

	reasonTaskCreated    = "ApprovalRequestCreated"
	reasonTaskNameTaken  = "ApprovalRequestNameTaken"
	reasonTaskApproved   = "ApprovalRequestApproved"
	reasonTaskRejected   = "ApprovalRequestRejected"
	reasonTaskElapsed    = "WaitTimeElapsed"
	reasonTaskNotElapsed = "WaitTimeNotElapsed"
	reasonTaskSkipped    = "Skipped"
)

// Reasons of the conditions of a run's clusters. All after Succeeded are
// Slipway's own: KubeFleet shows nothing in between.
const (
	reasonClusterStarted   = "ClusterUpdatingStarted"
	reasonClusterFailed    = "ClusterUpdatingFailed"
	reasonClusterSucceeded = "ClusterUpdatingSucceeded"
	reasonClusterSkipped   = "ClusterUpdatingSkipped"
	reasonClusterApplying  = "ClusterUpdatingApplying"
	reasonClusterSettling  = "ClusterUpdatingNotHealthyYet"
	reasonClusterRetrying  = "ClusterUpdatingRetrying"
	reasonClusterPending   = "ClusterUpdatingPending"
)

// Reasons of an approval request. Rejected, which people write too, Refused and Unvouched
// are Slipway's own.
const (
	reasonAccepted        = "ApprovalRequestApprovalAccepted"
	reasonRequestRejected = "ApprovalRequestRejected"
	reasonRefused         = "ApprovalRequestApprovalRefused"
	// reasonUnvouched: no answer counts, because the admission policies are not what they were.
	reasonUnvouched = "ApprovalRequestUnvouched"
	// reasonRejected makes Approved=False a rejection.
	reasonRejected = "Rejected"
)

// Reasons of a placement's conditions.
const (
	reasonFulfilled         = "SchedulingPolicyFulfilled"
	reasonUnfulfilled       = "SchedulingPolicyUnfulfilled"
	reasonSchedulePending   = "SchedulePending"
	reasonInvalidSelectors  = "InvalidResourceSelectors"
	reasonExternal          = "RolloutControlledByExternalController"
	reasonRolloutStarted    = "RolloutStarted"
	reasonRolloutNotStarted = "RolloutNotStartedYet"
	reasonNoOverride        = "NoOverrideSpecified"
	reasonOverridden        = "OverriddenSucceeded"
	reasonSynchronized      = "WorkSynchronized"
	reasonApplySucceeded    = "ApplySucceeded"
	reasonApplyPending      = "ApplyPending"
	reasonApplyFailed       = "ApplyFailed"
	reasonAvailable         = "ResourceAvailable"
	reasonNotAvailable      = "ResourceNotAvailableYet"
	reasonDiffReported      = "DiffReportingCompleted"
	reasonDiffNotReported   = "DiffReportingIncompleteOrFailed"
)

// Reasons of the conditions of a placement's clusters, where they are not
// those of the placement.
const (
	reasonScheduled        = "Scheduled"
	reasonScheduleFailed   = "ScheduleFailed"
	reasonWorkSynced       = "AllWorkSynced"
	reasonWorkApplied      = "AllWorkHaveBeenApplied"
	reasonWorkNotApplied   = "NotAllWorkHaveBeenApplied"
	reasonWorkApplying     = "ApplyInProgress"
	reasonWorkAvailable    = "AllWorkAreAvailable"
	reasonWorkNotAvailable = "NotAllWorkAreAvailable"
	reasonWorkDiffReported = "AllWorkHaveDiffReported"
	reasonWorkNotReported  = "NotAllWorkHaveDiffReported"

	reasonObjectNotApplied   = "ManifestApplyFailed"
	reasonObjectNotAvailable = "ManifestNotAvailableYet"
)

// Reasons of a member's conditions. Unreachable and NotReached are Slipway's own.
const (
	reasonReadyToJoin = "MemberClusterReadyToJoin"
	reasonJoined      = "MemberClusterJoined"
	reasonUnreachable = "MemberClusterUnreachable"
	reasonNotReached  = "MemberClusterNotReachedYet"
	reasonHealthy     = "MemberClusterHealthy"
)
