package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ClusterStagedUpdateStrategy has the stages in which a run brings a change to the clusters. A run
// keeps the strategy that it started with.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterstagedupdatestrategies,scope=Cluster,shortName=csus,categories={fleet,fleet-placement}
type ClusterStagedUpdateStrategy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The stages and their rules.
	Spec UpdateStrategySpec `json:"spec"`
}

// ClusterStagedUpdateStrategyList is a list of ClusterStagedUpdateStrategies.
//
// +kubebuilder:object:root=true
type ClusterStagedUpdateStrategyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterStagedUpdateStrategy `json:"items"`
}

// StagedUpdateStrategy has the stages in which a StagedUpdateRun of its namespace brings a change
// to the clusters. A run keeps the strategy that it started with.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=stagedupdatestrategies,scope=Namespaced,shortName=sus,categories={fleet,fleet-placement}
type StagedUpdateStrategy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The stages and their rules.
	Spec UpdateStrategySpec `json:"spec"`
}

// StagedUpdateStrategyList is a list of StagedUpdateStrategies.
//
// +kubebuilder:object:root=true
type StagedUpdateStrategyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []StagedUpdateStrategy `json:"items"`
}

// UpdateStrategySpec has the stages of a staged update.
type UpdateStrategySpec struct {
	// The stages. They run one after the other.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=31
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.name == b.name))",message="stage names must be unique"
	// +listType=atomic
	Stages []StageConfig `json:"stages"`
	// How long a cluster may take, over all attempts, before it counts as failed: more than 0 and at most 8760h.
	// Without it there is no limit. Not in KubeFleet.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="progressDeadline must be more than 0 and at most 8760h"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
	// How long a cluster that the run has not changed may be unreachable before it counts as
	// failed: more than 0 and at most 8760h. Without it there is no limit. Not in KubeFleet.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) > duration('0s') && duration(self) <= duration('8760h')",message="unreachableDeadline must be more than 0 and at most 8760h"
	UnreachableDeadline *metav1.Duration `json:"unreachableDeadline,omitempty"`
	// When and how the hub rolls a run back by itself. If it is absent, the hub rolls no run back. Not
	// in KubeFleet.
	Rollback *RollbackConfig `json:"rollback,omitempty"`
}

// RollbackConfig says when and how a run is rolled back. Not in KubeFleet.
type RollbackConfig struct {
	// The causes that start a rollback. The state Rollback of a run always starts one. Without causes, they are
	// BudgetExceeded and GateRejected. Command alone means that no run is rolled back by itself.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	Causes []RollbackCause `json:"causes,omitempty"`
	// Whether a cluster that had nothing of the placement before the run keeps the new objects. The default is Remove.
	NewClusters RollbackOfNewClusters `json:"newClusters,omitempty"`
	// The approval that a rollback needs before it changes the first cluster. If absent, it needs none; an empty
	// policy needs one person with the right to approve requests.
	Approval *ApprovalPolicy `json:"approval,omitempty"`
}

// RollbackCause is a reason to roll back a run.
//
// +kubebuilder:validation:Enum=BudgetExceeded;GateRejected;Command
type RollbackCause string

// The causes of a rollback.
const (
	// RollbackCauseBudgetExceeded: more clusters failed than the stage allows.
	RollbackCauseBudgetExceeded RollbackCause = "BudgetExceeded"
	// RollbackCauseGateRejected: a person or a check rejected the run.
	RollbackCauseGateRejected RollbackCause = "GateRejected"
	// RollbackCauseCommand: the state of the run is Rollback.
	RollbackCauseCommand RollbackCause = "Command"
)

// RollbackOfNewClusters is what a rollback does on clusters that had nothing of the placement before.
//
// +kubebuilder:validation:Enum=Remove;Leave
type RollbackOfNewClusters string

// The actions on new clusters.
const (
	// RollbackRemovesNewClusters removes the objects.
	RollbackRemovesNewClusters RollbackOfNewClusters = "Remove"
	// RollbackLeavesNewClusters keeps the objects.
	RollbackLeavesNewClusters RollbackOfNewClusters = "Leave"
)

// StageConfig is a stage of a staged update.
type StageConfig struct {
	// The name, unique in the strategy.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]+$`
	Name string `json:"name"`
	// The clusters of the stage. An empty selector matches all clusters that the placement picked, and a missing one
	// matches none.
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// A label with an integer by which clusters are ordered, then by name. Without it they are ordered by name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	SortingLabelKey *string `json:"sortingLabelKey,omitempty"`
	// How many clusters may be updated at the same time: a number, or a percentage of the stage, rounded down and at
	// least 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9][0-9]?)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1",message="maxConcurrency must be at least 1"
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// How many clusters may fail before the run fails: a number, or a percentage of the stage, rounded down. The
	// default is 0. Not in KubeFleet.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0",message="maxFailures must be at least 0"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// Tasks after the last cluster of the stage, at most one of each type. They start at the same time.
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, t.type == 'Approval' && has(t.waitTime))",message="AfterStageTaskType is Approval, waitTime is not allowed"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, t.type == 'TimedWait' && !has(t.waitTime))",message="AfterStageTaskType is TimedWait, waitTime is required"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, t.type == 'TimedWait' && has(t.approval))",message="AfterStageTaskType is TimedWait, approval is not allowed"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, has(t.waitTime) && duration(t.waitTime) > duration('8760h'))",message="waitTime must be at most 8760h"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.type == b.type))",message="afterStageTasks cannot have two tasks of the same type"
	AfterStageTasks []StageTask `json:"afterStageTasks,omitempty"`
	// Tasks before the first cluster of the stage: at most one Approval.
	// +kubebuilder:validation:MaxItems=1
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, t.type == 'Approval' && has(t.waitTime))",message="AfterStageTaskType is Approval, waitTime is not allowed"
	// +kubebuilder:validation:XValidation:rule="!self.exists(t, t.type == 'TimedWait')",message="BeforeStageTaskType cannot be TimedWait"
	BeforeStageTasks []StageTask `json:"beforeStageTasks,omitempty"`
	// Checks that must succeed before the stage starts. They are measured when the beforeStageTasks are done. Not in
	// KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	BeforeStageChecks []Check `json:"beforeStageChecks,omitempty"`
	// Checks that must succeed after the stage. They are measured when the afterStageTasks are done. If one fails,
	// the run fails as if it were rejected. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	AfterStageChecks []Check `json:"afterStageChecks,omitempty"`
	// Checks that are measured while clusters of the stage are updated. No cluster starts while the last measurement
	// is bad. Each bad measurement beyond the limit of its check counts as a failed cluster in maxFailures. Not in
	// KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	Checks []Check `json:"checks,omitempty"`
	// Checks of each cluster, which are measured when the cluster is healthy. The cluster keeps its slot until all
	// have succeeded, and it fails if one of them fails. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=16
	ClusterChecks []Check `json:"clusterChecks,omitempty"`
}

// StageTask must be done before a run continues.
type StageTask struct {
	// A wait, or an approval by people.
	Type StageTaskType `json:"type"`
	// How long a TimedWait lasts, at most 8760h. A run does not begin if its strategy waits 0s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	WaitTime *metav1.Duration `json:"waitTime,omitempty"`
	// Who must approve. Not in KubeFleet.
	Approval *ApprovalPolicy `json:"approval,omitempty"`
}

// StageTaskType is a type of tasks.
//
// +kubebuilder:validation:Enum=TimedWait;Approval
type StageTaskType string

// The types of tasks.
const (
	// StageTaskTypeTimedWait waits for a time.
	StageTaskTypeTimedWait StageTaskType = "TimedWait"
	// StageTaskTypeApproval waits for an approval.
	StageTaskTypeApproval StageTaskType = "Approval"
)

// Check is measured before, during or after a stage. A metric of Argo Rollouts has the same words.
// Not in KubeFleet.
//
// +kubebuilder:validation:XValidation:rule="has(self.query) != has(self.object)",message="a check has a query or an object"
// +kubebuilder:validation:XValidation:rule="has(self.object) || has(self.min) || has(self.max)",message="a check with a query has a min, a max or both"
// +kubebuilder:validation:XValidation:rule="!has(self.object) || !has(self.provider) && !has(self.clusterLabel) && !has(self.min) && !has(self.max) && !has(self.empty)",message="a check with an object has no provider, clusterLabel, min, max and empty: it is good when the object is healthy"
// +kubebuilder:validation:XValidation:rule="has(self.object) || !has(self.cluster)",message="only a check with an object has a cluster"
type Check struct {
	// The name, unique in its list.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// The provider of metrics to query, by the name that the hub gives it. Without it, the hub's only provider.
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`
	// The query, in the language of the provider. Its result is one number. Words in double braces are replaced: run,
	// placement, stage, snapshot and window, and in a check of clusters cluster and labels.KEY.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query,omitempty"`
	// Replaces the query. It names an object of the snapshot: the object whose annotation slipway.dev/check has
	// this value. The hub applies it, waits until it is healthy or has failed, and removes it.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Object string `json:"object,omitempty"`
	// The cluster to which the object of a check before or after a stage is applied. A check of clusters applies its
	// object to each cluster.
	// +kubebuilder:validation:MaxLength=63
	Cluster string `json:"cluster,omitempty"`
	// The label with the name of the cluster, if one query of a check of clusters returns a number for each. Without
	// it, the hub sends a query for each cluster.
	// +kubebuilder:validation:MaxLength=253
	ClusterLabel string `json:"clusterLabel,omitempty"`
	// The least number that is good.
	Min *float64 `json:"min,omitempty"`
	// The greatest number that is good.
	Max *float64 `json:"max,omitempty"`
	// The time from the beginning of the check to the first measurement.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	InitialDelay *metav1.Duration `json:"initialDelay,omitempty"`
	// The time between measurements, at least 1s. The default is 10s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	Interval *metav1.Duration `json:"interval,omitempty"`
	// How many measurements must be successful. The default is 1.
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
	// How many measurements may fail. The default is 0.
	// +kubebuilder:validation:Minimum=0
	FailureLimit int32 `json:"failureLimit,omitempty"`
	// How many measurements may be inconclusive. The default is 0.
	// +kubebuilder:validation:Minimum=0
	InconclusiveLimit int32 `json:"inconclusiveLimit,omitempty"`
	// How many measurements in a row may be an error. The default is 4.
	// +kubebuilder:validation:Minimum=0
	ConsecutiveErrorLimit *int32 `json:"consecutiveErrorLimit,omitempty"`
	// The result of a measurement without a number. The default is Inconclusive.
	// +kubebuilder:validation:Enum=Successful;Failed;Inconclusive
	Empty CheckPhase `json:"empty,omitempty"`
	// How long the check may take before it fails. The default is 24h.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	Expires *metav1.Duration `json:"expires,omitempty"`
}

// CheckPhase is the state of a check, or the result of a measurement. Not in KubeFleet.
type CheckPhase string

// The states of a check. All but CheckRunning are results of measurements, too.
const (
	// CheckRunning has measurements left.
	CheckRunning CheckPhase = "Running"
	// CheckSuccessful has had enough successful measurements.
	CheckSuccessful CheckPhase = "Successful"
	// CheckFailed has had too many failed measurements.
	CheckFailed CheckPhase = "Failed"
	// CheckError has had too many measurements that could not be made.
	CheckError CheckPhase = "Error"
	// CheckInconclusive has had too many measurements without a number.
	CheckInconclusive CheckPhase = "Inconclusive"
)
