package api

// EventReason is the reason of a Kubernetes Event that the hub writes. The events of a run have
// their stages.EventType as the reason.
type EventReason string

// Events of placements.
const (
	// EventSnapshotTaken: there is a new snapshot of the placement's objects, or a new version of
	// the override.
	// Normal on: ClusterResourcePlacement, ResourcePlacement, ClusterResourceOverride,
	// ResourceOverride.
	EventSnapshotTaken EventReason = "SnapshotTaken"
	// EventSnapshotMarked: the hub read the label slipway.dev/irreversible of a snapshot, and has set
	// or removed the mark.
	// Normal on: ClusterResourcePlacement, ResourcePlacement.
	EventSnapshotMarked EventReason = "SnapshotMarked"
	// EventInvalidLabel: the label slipway.dev/irreversible of a snapshot is neither true nor false.
	// Warning on: ClusterResourcePlacement, ResourcePlacement.
	EventInvalidLabel EventReason = "InvalidLabel"
	// EventInvalidSelectors: the engine refuses the placement, for example because its selectors
	// are invalid.
	// Warning on: ClusterResourcePlacement, ResourcePlacement.
	EventInvalidSelectors EventReason = ReasonInvalidSelectors
	// EventLeftOut: no cluster receives an object that the selectors pick. It is a Warning for an
	// object of an envelope, and Normal for an object that is never placed.
	// Normal or Warning on: ClusterResourcePlacement, ResourcePlacement.
	EventLeftOut EventReason = "LeftOut"
	// EventNotReportedBack: the placement has a reportBackStrategy, and the status of some or all of
	// its objects cannot be copied back.
	// Warning on: ClusterResourcePlacement, ResourcePlacement.
	EventNotReportedBack EventReason = "StatusNotReportedBack"
	// EventDeleted: the placement is deleted, and its objects are removed from all clusters.
	// Normal on: ClusterResourcePlacement, ResourcePlacement.
	EventDeleted EventReason = "Deleted"
	// EventAbandoned: the placement is deleted, and its objects stay on the clusters, because its
	// policy says so.
	// Normal on: ClusterResourcePlacement, ResourcePlacement.
	EventAbandoned EventReason = "Abandoned"
	// EventReleased: the placement is deleted, and some of its objects stay on a cluster, for
	// example because nothing proves that the placement created them.
	// Warning on: ClusterResourcePlacement, ResourcePlacement.
	EventReleased EventReason = "Released"
	// EventLeftBehind: the placement is deleted, and its objects may still be on a cluster that
	// could not be cleaned.
	// Warning on: ClusterResourcePlacement, ResourcePlacement.
	EventLeftBehind EventReason = "LeftBehind"
)

// Events of overrides, evictions and members.
const (
	// EventInvalidOverride: the override is invalid.
	// Warning on: ClusterResourceOverride, ResourceOverride.
	EventInvalidOverride EventReason = "InvalidOverride"
	// EventPlacementNotFound: the override names a placement of another scope, which does not
	// exist, so it has no effect.
	// Warning on: ResourceOverride.
	EventPlacementNotFound EventReason = "PlacementNotFound"
	// EventEvicted: the eviction is carried out.
	// Normal on: ClusterResourcePlacementEviction.
	EventEvicted EventReason = "Evicted"
	// EventNotEvicted: the eviction is invalid or is not allowed now.
	// Warning on: ClusterResourcePlacementEviction.
	EventNotEvicted EventReason = "NotEvicted"
	// EventNotLabelled: the hub has no right to label the member with its name.
	// Warning on: MemberCluster.
	EventNotLabelled EventReason = "NotLabelled"
)

// Events of runs and approval requests, beside the events of the engine.
const (
	// EventInitializeFailed: the run does not begin, because it is invalid or its name is taken.
	// Warning on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventInitializeFailed EventReason = ReasonInitializeFailed
	// EventRunNotBegun: the status says that the run has ended, and the hub has no record of it, so
	// the hub does not begin it again.
	// Normal on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventRunNotBegun EventReason = "RunNotBegun"
	// EventRunReplaced: the hub deletes the record of a run of the same name whose object is gone.
	// Warning on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventRunReplaced EventReason = "RunReplaced"
	// EventRollbackRequested: a rollback of the run is requested and has not started.
	// Normal on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventRollbackRequested EventReason = ReasonRollbackRequested
	// EventRollbackStarted: another run rolls the run back.
	// Normal on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventRollbackStarted EventReason = ReasonRollbackStarted
	// EventRollbackRefused: the run is not rolled back.
	// Warning on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventRollbackRefused EventReason = ReasonRollbackRefused
	// EventRequestNameTaken: a request of this run cannot be created, because the approval request of
	// another run has the same name.
	// Warning on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventRequestNameTaken EventReason = "RequestNameTaken"
	// EventUnvouched: no answer to an approval request of the run counts, because the hub's
	// admission policies have changed.
	// Warning on: ClusterStagedUpdateRun, StagedUpdateRun.
	EventUnvouched EventReason = ReasonUnvouched
	// EventRequestNotHonoured: the hub deletes an approval request, because it has expired or
	// because somebody else created or changed it.
	// Warning on: ClusterApprovalRequest, ApprovalRequest.
	EventRequestNotHonoured EventReason = "RequestNotHonoured"
	// EventAnswerNotCounted: an approval request is deleted, and an answer in it does not count.
	// Warning on: ClusterStagedUpdateRun, StagedUpdateRun, ClusterApprovalRequest, ApprovalRequest.
	EventAnswerNotCounted EventReason = "AnswerNotCounted"
)

// Events of applications.
const (
	// EventWorkflowStarted: a run of the workflow was created.
	// Normal on: Application.
	EventWorkflowStarted EventReason = "WorkflowStarted"
	// EventWorkflowNotStarted: the application is invalid, or its workflow cannot start.
	// Warning on: Application.
	EventWorkflowNotStarted EventReason = "WorkflowNotStarted"
	// EventRunningWorkflow: the workflow runs, also again after it was suspended.
	// Normal on: Application.
	EventRunningWorkflow EventReason = "RunningWorkflow"
	// EventWorkflowSuspending: the workflow waits for somebody who resumes it, or for a time.
	// Normal on: Application.
	EventWorkflowSuspending EventReason = "WorkflowSuspending"
	// EventWorkflowTerminated: the workflow was terminated.
	// Warning on: Application.
	EventWorkflowTerminated EventReason = "WorkflowTerminated"
	// EventWorkflowFailed: the workflow failed.
	// Warning on: Application.
	EventWorkflowFailed EventReason = "WorkflowFailed"
	// EventRunning: the workflow has succeeded, and the application runs.
	// Normal on: Application.
	EventRunning EventReason = "Running"
)
