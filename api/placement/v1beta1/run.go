package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterStagedUpdateRun rolls a snapshot of a ClusterResourcePlacement out over the stages of a strategy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterstagedupdateruns,scope=Cluster,shortName=csur,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placementName`
// +kubebuilder:printcolumn:name="Resource-Snapshot-Index",type=string,JSONPath=`.spec.resourceSnapshotIndex`
// +kubebuilder:printcolumn:name="Policy-Snapshot-Index",type=string,JSONPath=`.status.policySnapshotIndexUsed`
// +kubebuilder:printcolumn:name="Initialized",type=string,JSONPath=`.status.conditions[?(@.type=="Initialized")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Strategy",type=string,priority=1,JSONPath=`.spec.stagedRolloutStrategyName`
// +kubebuilder:printcolumn:name="Completed",type=integer,priority=1,JSONPath=`.status.clusterCounts.completed`
// +kubebuilder:printcolumn:name="Clusters",type=integer,priority=1,JSONPath=`.status.clusterCounts.total`
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.summary.state`
// +kubebuilder:printcolumn:name="Stage",type=string,priority=1,JSONPath=`.status.summary.stage`
// +kubebuilder:printcolumn:name="Snapshot",type=string,priority=1,JSONPath=`.status.resourceSnapshotIndexUsed`
// +kubebuilder:printcolumn:name="Failed",type=integer,priority=1,JSONPath=`.status.clusterCounts.failed`
// +kubebuilder:printcolumn:name="Skipped",type=integer,priority=1,JSONPath=`.status.clusterCounts.skipped`
// +kubebuilder:printcolumn:name="Started",type=string,priority=1,JSONPath=`.status.summary.startTime`
// +kubebuilder:printcolumn:name="Ended",type=string,priority=1,JSONPath=`.status.summary.endTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.summary.message`
// +kubebuilder:printcolumn:name="Rollback-Of",type=string,priority=1,JSONPath=`.metadata.labels.slipway\.dev/rollback-of`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) < 64",message="metadata.name max length is 63"
type ClusterStagedUpdateRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state of the run.
	Spec UpdateRunSpec `json:"spec"`
	// The observed state of the run.
	Status UpdateRunStatus `json:"status,omitzero"`
}

// ClusterStagedUpdateRunList is a list of ClusterStagedUpdateRuns.
//
// +kubebuilder:object:root=true
type ClusterStagedUpdateRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterStagedUpdateRun `json:"items"`
}

// StagedUpdateRun rolls a snapshot of a ResourcePlacement of its namespace out over the stages of a strategy.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=stagedupdateruns,scope=Namespaced,shortName=sur,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placementName`
// +kubebuilder:printcolumn:name="Resource-Snapshot-Index",type=string,JSONPath=`.spec.resourceSnapshotIndex`
// +kubebuilder:printcolumn:name="Policy-Snapshot-Index",type=string,JSONPath=`.status.policySnapshotIndexUsed`
// +kubebuilder:printcolumn:name="Initialized",type=string,JSONPath=`.status.conditions[?(@.type=="Initialized")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Strategy",type=string,priority=1,JSONPath=`.spec.stagedRolloutStrategyName`
// +kubebuilder:printcolumn:name="Completed",type=integer,priority=1,JSONPath=`.status.clusterCounts.completed`
// +kubebuilder:printcolumn:name="Clusters",type=integer,priority=1,JSONPath=`.status.clusterCounts.total`
// +kubebuilder:printcolumn:name="State",type=string,priority=1,JSONPath=`.status.summary.state`
// +kubebuilder:printcolumn:name="Stage",type=string,priority=1,JSONPath=`.status.summary.stage`
// +kubebuilder:printcolumn:name="Snapshot",type=string,priority=1,JSONPath=`.status.resourceSnapshotIndexUsed`
// +kubebuilder:printcolumn:name="Failed",type=integer,priority=1,JSONPath=`.status.clusterCounts.failed`
// +kubebuilder:printcolumn:name="Skipped",type=integer,priority=1,JSONPath=`.status.clusterCounts.skipped`
// +kubebuilder:printcolumn:name="Started",type=string,priority=1,JSONPath=`.status.summary.startTime`
// +kubebuilder:printcolumn:name="Ended",type=string,priority=1,JSONPath=`.status.summary.endTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.summary.message`
// +kubebuilder:printcolumn:name="Rollback-Of",type=string,priority=1,JSONPath=`.metadata.labels.slipway\.dev/rollback-of`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) < 64",message="metadata.name max length is 63"
type StagedUpdateRun struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state of the run.
	Spec UpdateRunSpec `json:"spec"`
	// The observed state of the run.
	Status UpdateRunStatus `json:"status,omitzero"`
}

// StagedUpdateRunList is a list of StagedUpdateRuns.
//
// +kubebuilder:object:root=true
type StagedUpdateRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StagedUpdateRun `json:"items"`
}

// UpdateRunSpec is the desired state of a run.
//
// +kubebuilder:validation:XValidation:rule="(has(self.resourceSnapshotIndex) ? self.resourceSnapshotIndex : \"\") == (has(oldSelf.resourceSnapshotIndex) ? oldSelf.resourceSnapshotIndex : \"\")",message="resourceSnapshotIndex is immutable"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.state) && oldSelf.state == 'Initialize' && has(self.state) && self.state == 'Stop')",message="invalid state transition: cannot transition from Initialize to Stop"
// +kubebuilder:validation:XValidation:rule="!((!has(oldSelf.state) || oldSelf.state == 'Run') && has(self.state) && self.state == 'Initialize')",message="invalid state transition: cannot transition from Run to Initialize"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.state) && oldSelf.state == 'Stop' && has(self.state) && self.state == 'Initialize')",message="invalid state transition: cannot transition from Stop to Initialize"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.state) && oldSelf.state == 'Initialize' && has(self.state) && self.state == 'Rollback')",message="invalid state transition: cannot transition from Initialize to Rollback"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.state) && oldSelf.state == 'Rollback' && has(self.state) && self.state == 'Initialize')",message="invalid state transition: cannot transition from Rollback to Initialize"
type UpdateRunSpec struct {
	// The placement to roll out. A run without a placement does not begin.
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="placementName is immutable"
	PlacementName string `json:"placementName"`
	// The index of the snapshot to roll out. Without it, the run takes a snapshot of the objects that are selected
	// when it begins.
	// +optional
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^[0-9]*$`
	ResourceSnapshotIndex string `json:"resourceSnapshotIndex"`
	// The strategy. A run without a strategy does not begin.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="stagedRolloutStrategyName is immutable"
	StagedUpdateStrategyName string `json:"stagedRolloutStrategyName"`
	// Initialize plans the run and waits. Run starts it or continues it. Stop lets clusters in flight finish and
	// starts no other. Rollback ends the run and rolls it back by another run.
	State State `json:"state,omitempty"`
}

// State is the wanted state of a run. Without it, the compatibility setting of the hub decides: the
// state is Run by default, and Initialize for v0.18.
//
// +kubebuilder:validation:Enum=Initialize;Run;Stop;Rollback
type State string

// The wanted states of a run.
const (
	// StateInitialize plans the run and waits.
	StateInitialize State = "Initialize"
	// StateRun starts the run or continues it.
	StateRun State = "Run"
	// StateStop lets clusters in flight finish and starts no other.
	StateStop State = "Stop"
	// StateRollback ends the run and rolls it back by another run. Not in KubeFleet.
	StateRollback State = "Rollback"
)

// UpdateRunStatus is the observed state of a run.
type UpdateRunStatus struct {
	// The index of the policy whose clusters are in the plan.
	PolicySnapshotIndexUsed string `json:"policySnapshotIndexUsed,omitempty"`
	// How many clusters the policy picked.
	PolicyObservedClusterCount int `json:"policyObservedClusterCount,omitempty"`
	// The index of the snapshot that is rolled out.
	ResourceSnapshotIndexUsed string `json:"resourceSnapshotIndexUsed,omitempty"`
	// How the run applies objects.
	ApplyStrategy *ApplyStrategy `json:"appliedStrategy,omitempty"`
	// The strategy at the start of the run.
	UpdateStrategySnapshot *UpdateStrategySpec `json:"stagedUpdateStrategySnapshot,omitempty"`
	// The digest of the plan, to which approvals are bound. Not in KubeFleet.
	// +kubebuilder:validation:MaxLength=128
	PlanDigest string `json:"planDigest,omitempty"`
	// The user who created the run, if known. Not in KubeFleet.
	StartedBy *Identity `json:"startedBy,omitempty"`
	// The columns of a list of runs. Not in KubeFleet.
	Summary *UpdateRunSummary `json:"summary,omitempty"`
	// How many clusters of the run are in each state. Not in KubeFleet.
	ClusterCounts *ClusterCounts `json:"clusterCounts,omitempty"`
	// The clusters that the lists of the stages leave out. Absent if the lists are complete. Not in KubeFleet.
	ClusterListing *ClusterListing `json:"clusterListing,omitempty"`
	// The progress of the stages.
	StagesStatus []StageUpdatingStatus `json:"stagesStatus,omitempty"`
	// The progress of the clusters that left the placement.
	DeletionStageStatus *StageUpdatingStatus `json:"deletionStageStatus,omitempty"`
	// How many events of the run the hub has reported as Events. A hub that starts reports later events only. Not in
	// KubeFleet.
	// +kubebuilder:validation:Minimum=0
	ObservedEvents int64 `json:"observedEvents,omitempty"`
	// The run that rolls this run back. Not in KubeFleet.
	RollbackRunName string `json:"rollbackRunName,omitempty"`
	// Initialized, Progressing and Succeeded, and RollbackStarted if the run is rolled back.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UpdateRunSummary has the columns of a list of runs. Not in KubeFleet.
type UpdateRunSummary struct {
	// NotStarted, Pending, Running, Stopping, Stopped, Completed, Failed, Aborted or Superseded. Absent if the record
	// of the run no longer exists.
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`
	// The current stage. Absent after the last one.
	Stage string `json:"stage,omitempty"`
	// When the run started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// When the run ended.
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Why the run waits, or did not complete.
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// ClusterCounts says how many clusters are in each state. Not in KubeFleet.
type ClusterCounts struct {
	// All clusters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// Clusters that have the revision and are healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Completed int32 `json:"completed"`
	// Clusters that are being updated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InFlight int32 `json:"inFlight"`
	// Clusters that failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed"`
	// Clusters that are skipped.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Skipped int32 `json:"skipped"`
	// Clusters that released their slot and are tried again later.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Waiting int32 `json:"waiting"`
}

// ClusterListing says that a list has not all clusters, because there are too many for one object. Not in KubeFleet.
type ClusterListing struct {
	// How many clusters the list has.
	// +kubebuilder:validation:Minimum=0
	Listed int32 `json:"listed"`
	// How many clusters there are.
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// The clusters that are listed, and the place of the others.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message"`
}

// StageUpdatingStatus is the progress of a stage.
type StageUpdatingStatus struct {
	// The name of the stage.
	StageName string `json:"stageName"`
	// How many clusters of the stage are in each state. Not in KubeFleet.
	ClusterCounts *ClusterCounts `json:"clusterCounts,omitempty"`
	// The clusters in the order of the plan. A big stage lists clusters that are in flight, failed or waiting;
	// clusterCounts has the others.
	Clusters []ClusterUpdatingStatus `json:"clusters"`
	// The progress of the tasks after the stage.
	// +kubebuilder:validation:MaxItems=2
	AfterStageTaskStatus []StageTaskStatus `json:"afterStageTaskStatus,omitempty"`
	// The progress of the task before the stage.
	// +kubebuilder:validation:MaxItems=1
	BeforeStageTaskStatus []StageTaskStatus `json:"beforeStageTaskStatus,omitempty"`
	// The progress of the checks before the stage. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	BeforeStageCheckStatus []CheckStatus `json:"beforeStageCheckStatus,omitempty"`
	// The progress of the checks during the stage. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	CheckStatus []CheckStatus `json:"checkStatus,omitempty"`
	// The progress of the checks after the stage. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	AfterStageCheckStatus []CheckStatus `json:"afterStageCheckStatus,omitempty"`
	// When the first cluster started.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// When the stage ended.
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// Progressing and Succeeded.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterUpdatingStatus is the progress of a run on a cluster.
type ClusterUpdatingStatus struct {
	// The name of the cluster.
	ClusterName string `json:"clusterName"`
	// The ResourceOverrideSnapshots that change objects on the cluster.
	ResourceOverrideSnapshots []NamespacedName `json:"resourceOverrideSnapshots,omitempty"`
	// The ClusterResourceOverrideSnapshots that change objects on the cluster.
	ClusterResourceOverrideSnapshots []string `json:"clusterResourceOverrideSnapshots,omitempty"`
	// The index of the snapshot that a rollback restores on the cluster, empty if it removes the objects. Other runs
	// have none. Not in KubeFleet.
	ResourceSnapshotIndex string `json:"resourceSnapshotIndex,omitempty"`
	// The results of the checks of the cluster. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	CheckStatus []ClusterCheckStatus `json:"checkStatus,omitempty"`
	// Started and Succeeded.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// StageTaskStatus is the progress of a task.
type StageTaskStatus struct {
	// The type of the task.
	Type StageTaskType `json:"type"`
	// The name of the approval request.
	ApprovalRequestName string `json:"approvalRequestName,omitempty"`
	// ApprovalRequestCreated, ApprovalRequestApproved and WaitTimeElapsed.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CheckStatus is the progress of a check. Not in KubeFleet.
type CheckStatus struct {
	// The name of the check.
	Name string `json:"name"`
	// The state of the check.
	// +kubebuilder:validation:Enum=Running;Successful;Failed;Error;Inconclusive
	Phase CheckPhase `json:"phase"`
	// The number that was measured last.
	Value string `json:"value,omitempty"`
	// The result of the last measurement.
	// +kubebuilder:validation:Enum=Successful;Failed;Error;Inconclusive
	LastMeasurement CheckPhase `json:"lastMeasurement,omitempty"`
	// Why the last measurement is not successful.
	Message string `json:"message,omitempty"`
	// When the last measurement was asked for.
	LastMeasuredTime *metav1.Time `json:"lastMeasuredTime,omitempty"`
	// When the next measurement is due.
	NextMeasurementTime *metav1.Time `json:"nextMeasurementTime,omitempty"`
	// How many measurements were made.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// How many measurements were successful.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Successful int32 `json:"successful"`
	// How many measurements failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed int32 `json:"failed"`
	// How many measurements had no number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Inconclusive int32 `json:"inconclusive"`
	// How many measurements could not be made.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Error int32 `json:"error"`
}

// ClusterCheckStatus is the result of a check of a cluster. Not in KubeFleet.
type ClusterCheckStatus struct {
	// The name of the check.
	Name string `json:"name"`
	// The state of the check.
	// +kubebuilder:validation:Enum=Running;Successful;Failed;Error;Inconclusive
	Phase CheckPhase `json:"phase"`
	// The number that was measured last.
	Value string `json:"value,omitempty"`
	// The result of the last measurement.
	// +kubebuilder:validation:Enum=Successful;Failed;Error;Inconclusive
	LastMeasurement CheckPhase `json:"lastMeasurement,omitempty"`
	// Why the last measurement is not successful.
	Message string `json:"message,omitempty"`
	// When the last measurement was made.
	LastMeasuredTime *metav1.Time `json:"lastMeasuredTime,omitempty"`
}
