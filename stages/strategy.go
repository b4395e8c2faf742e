package stages

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
)

// Profile presets what happens when clusters fail. The machine is one; a
// profile only fills in what a [Strategy] leaves open.
type Profile string

// The profiles.
const (
	// Staged is a KubeFleet staged update run, and the default: a failing
	// cluster is tried again for ever, keeps its slot and shows why; a failed
	// run is terminal.
	Staged Profile = "Staged"
	// ClusterUpdate is an Azure cluster update run: one attempt, no failure
	// tolerated unless MaxFailures says so; a failed run can be started again
	// and goes on with what is unprocessed.
	ClusterUpdate Profile = "ClusterUpdate"
	// Workflow is a KubeVela workflow: ten retries, and past the budget the
	// run is suspended (state Stopped) to be resumed or aborted.
	Workflow Profile = "Workflow"
)

// Unassigned says what becomes of a placed cluster that no stage selects.
type Unassigned string

// What to do with clusters in no stage.
const (
	// UnassignedError makes it an error of the plan. It is the default.
	UnassignedError Unassigned = "Error"
	// UnassignedExclude leaves the cluster out, with a warning. A stage with
	// groups takes only those of its clusters then that a group selects.
	UnassignedExclude Unassigned = "Exclude"
	// UnassignedFinalStage updates the clusters in a last stage, "unassigned": as if the strategy ended with a
	// stage of that name whose Rest is set, if there are such clusters.
	UnassignedFinalStage Unassigned = "FinalStage"
)

// Names of stages that the planner adds. A strategy cannot use them.
const (
	FinalStageName = "unassigned"
	// RemovalStageName is where clusters that left the placement are cleaned.
	RemovalStageName = "remove"
)

// Strategy says in which order and how fast a change reaches the clusters. It
// is a template: a [Plan] freezes it. Durations are from 0 to 365 days.
//
// One that sets nothing but its stages is a patient one: each stage updates one cluster after the other, and a cluster
// that cannot be updated is tried again without end, after 1 s, 2 s, 4 s and so on up to 1 min. It keeps its slot, no
// cluster fails, and the run goes on until the cluster is updated, skipped, or the run is stopped or aborted. So neither
// the default MaxFailures of 0 nor a Rollback for BudgetExceeded ever counts, until ProgressDeadline bounds the time or
// Attempts the tries, as profiles ClusterUpdate and Workflow do. Plan.Warnings names budgets that can never count, and
// stages that update many clusters one after the other because of a percentage that comes to 1, of StrictFailures, or
// of a MaxConcurrency that is not set.
type Strategy struct {
	// Name is a DNS subdomain, or empty.
	Name string `json:"name"`
	// Stages run one after the other; there is at least one.
	Stages []Stage `json:"stages"`
	// Unassigned is UnassignedError when empty.
	Unassigned Unassigned `json:"unassigned,omitempty"`
	// Removal governs the stage that cleans clusters that left the placement.
	Removal Removal `json:"removal,omitzero"`

	// Cap is the name of a [Cap] that bounds what is in flight of all runs whose
	// strategies name it; none where empty. What is cleaned counts too.
	Cap string `json:"cap,omitempty"`

	// Profile is Staged when empty.
	Profile Profile `json:"profile,omitempty"`
	// Requests says how the approval requests of a run are named; default approval.NamedBySide.
	Requests approval.Naming `json:"requests,omitempty"`
	// Attempts is how often a cluster is tried; 0 means as the profile says
	// (Staged without end, ClusterUpdate 1, Workflow 11), -1 without end.
	Attempts int `json:"attempts,omitempty"`
	// Backoff is the wait before the second attempt; it doubles with each
	// one up to MaxBackoff. Defaults: 1 s, and 1 min or Backoff where that is
	// longer. After an error that is permanent, as when an object is forbidden or
	// invalid, trying again soon does not help, and the wait is MaxBackoff at once; the
	// message of the cluster says so.
	Backoff    time.Duration `json:"backoff,omitempty"`
	MaxBackoff time.Duration `json:"maxBackoff,omitempty"`
	// ProgressDeadline is how long a cluster may take, over all its attempts,
	// before it counts as failed. 0 means for ever. The time a cluster is
	// Pending does not count.
	ProgressDeadline time.Duration `json:"progressDeadline,omitempty"`
	// MinHealthy is how long a cluster must have been healthy before it counts
	// as done; losing health starts it again. A cluster that had the revision
	// already does not wait.
	MinHealthy time.Duration `json:"minHealthy,omitempty"`
	// Rollback rolls back what a run brought; nil means that nothing does.
	Rollback *RollbackPolicy `json:"rollback,omitempty"`
	// OnFailure is what a run of profile Workflow does past a budget or a timeout;
	// SuspendRun when empty. Other profiles have none.
	OnFailure OnFailure `json:"onFailure,omitempty"`
}

// Stage is a step of a strategy. Stages run one after the other.
type Stage struct {
	// Name is a DNS label, unique in the strategy.
	Name string `json:"name"`
	// Selector picks clusters: nil none, empty all.
	Selector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Clusters picks clusters by name, in this order, in place of a Selector and a
	// SortKey.
	Clusters []string `json:"clusters,omitempty"`
	// Take makes the stage one of a share: it takes so many of the clusters that are left and that Selector matches,
	// nil all, the first ones in the order of SortKey. Left is what no stage without Take and Rest selects, wherever
	// that stands, and no stage of a share before this one has taken. It is a number of at least 1, or a percentage
	// from 1% to 100% of these clusters, rounded down, at least 1. Which clusters these are is frozen in the plan.
	// Stages that take 10%, 50% and 100% of 100 clusters have 10, 45 and 45.
	Take *intstr.IntOrString `json:"take,omitempty"`
	// Rest makes the stage that of all clusters which no other stage has. It has neither a Selector nor Clusters nor
	// Take, and only stages that Pause come after it.
	Rest bool `json:"rest,omitempty"`
	// SortKey is a label whose integer value orders the clusters, ascending,
	// then by name. Clusters without the label come last, by name.
	SortKey string `json:"sortingLabelKey,omitempty"`
	// Groups divide the stage into parts that run in parallel. Every cluster
	// of the stage is picked by exactly one. None means one group.
	Groups []Group `json:"groups,omitempty"`
	// MaxConcurrency is how many clusters of the stage may be in flight, a
	// number of at least 1 or a percentage from 1% to 100% of the stage's
	// clusters, rounded down, at least 1. Default: 1 without groups, no limit
	// of its own with groups.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// MaxFailures is how many clusters of the stage may fail, a number of at
	// least 0 or a percentage from 0% to 100%, rounded up. Default: 0. Where
	// attempts never end and there is no deadline, no cluster fails.
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// StrictFailures makes the budget a bound: a cluster starts only while those
	// that have failed and those in flight, with it, are at most MaxFailures. At
	// no concurrency do more fail than that, and the run ends as Failed when the
	// budget is used up and clusters are left. It needs a MaxFailures of at least
	// 1. Without it what is in flight when a budget is exceeded may fail too.
	StrictFailures bool `json:"strictFailures,omitempty"`
	// Domains bound how many clusters of one region, zone or the like are in flight
	// at once, at most 4 labels. A cluster starts only while each of its domains has
	// room; the others go first meanwhile, in their order.
	Domains []Domain `json:"domains,omitempty"`
	Before  []Task   `json:"beforeStageTasks,omitempty"`
	After   []Task   `json:"afterStageTasks,omitempty"`
	// Checks are measured for as long as clusters of the stage are updated. While the last measurement of one is bad no cluster
	// starts, and the stage is not left. Each bad one beyond its limit counts as a failed cluster in MaxFailures.
	Checks []check.Check `json:"checks,omitempty"`
	// ClusterChecks are measured for each cluster once it is healthy, and has been for MinHealthy. It keeps its slot until they
	// are Successful, and has failed with the first that is not, whatever Attempts says. A cluster that had the revision
	// already is not measured.
	ClusterChecks []check.Check `json:"clusterChecks,omitempty"`
	Flow
}

// Group is a part of a stage.
type Group struct {
	// Name is a DNS label, unique in the stage.
	Name     string                `json:"name"`
	Selector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	// Clusters as in Stage.
	Clusters []string `json:"clusters,omitempty"`
	// New makes the group that of the stage's clusters which have nothing of the placement yet, see [Target].New; the
	// other groups pick among the rest. A new cluster has nothing that an update could interrupt, so it can be brought
	// up without waiting for, or holding up, clusters that are updated at a lower MaxConcurrency. It has neither a
	// Selector nor Clusters, may be empty, and a stage has one such group at most.
	New bool `json:"new,omitempty"`
	// SortKey is the stage's when empty.
	SortKey string `json:"sortingLabelKey,omitempty"`
	// MaxConcurrency is 1 by default, MaxFailures has no limit of its own;
	// both as in Stage, over the group's clusters.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	MaxFailures    *intstr.IntOrString `json:"maxFailures,omitempty"`
	// StrictFailures as in Stage, over the group's clusters.
	StrictFailures bool `json:"strictFailures,omitempty"`
	// Before and After hold this group only; the other groups of the stage go on.
	Before []Task `json:"beforeGroupTasks,omitempty"`
	After  []Task `json:"afterGroupTasks,omitempty"`
	// DependsOn names groups of the stage that have to end before this one begins.
	DependsOn []string `json:"dependsOn,omitempty"`
	Flow
}

// Removal is how clusters that left the placement are cleaned: after all
// stages, by name.
type Removal struct {
	// MaxConcurrency as in Stage; default 1.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// Deadline is how long an unreachable cluster holds the removal up before
	// it is skipped. Default 5 min.
	Deadline time.Duration `json:"deadline,omitempty"`
	Before   []Task        `json:"beforeStageTasks,omitempty"`
	After    []Task        `json:"afterStageTasks,omitempty"`
	// Only, where not empty, makes a run an eviction: it updates nothing, and cleans these clusters and no others,
	// picked or not. Until it has ended they are not picked; what is decided then may pick them again. A run that
	// supersedes others does not supersede an eviction. The stages of the strategy stay empty, and it has no Rollback.
	Only []string `json:"only,omitempty"`
}

// TaskType is what a [Task] waits for.
type TaskType string

// The types of a task.
const (
	TimedWait TaskType = "TimedWait"
	Approval  TaskType = "Approval"
	// ScheduledStart waits before a stage or a group for the next time that its
	// Schedule names.
	ScheduledStart TaskType = "ScheduledStart"
	// CheckTask waits until its Checks are Successful, the last measurement of each made when all other tasks of its side had
	// finished: what was good before the last approval is measured again. It is rejected with the first check that fails.
	CheckTask TaskType = "Check"
)

// Task holds a run before or after a stage or a group. Each side takes at most
// one task of each type; those of one side start at the same instant and must
// all finish.
type Task struct {
	Type TaskType `json:"type"`
	// Wait is how long a TimedWait lasts, more than 0 and at most 365 days.
	Wait time.Duration `json:"waitTime,omitempty"`
	// Approval is the policy of an Approval; nil is the zero Policy.
	Approval *approval.Policy `json:"approval,omitempty"`
	// Schedule is that of a ScheduledStart.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Checks are those of a CheckTask, at least one.
	Checks []check.Check `json:"checks,omitempty"`
	// DisplayName is what people call the task, at most 100 characters. Nothing
	// depends on it.
	DisplayName string `json:"displayName,omitempty"`
}

// Schedule is a time of the week.
type Schedule struct {
	// Day is the English name of the day, for example Monday; empty means every
	// day.
	Day string `json:"day,omitempty"`
	// Time is the time of day, from 00:00 to 23:59.
	Time string `json:"time"`
	// Offset is the distance from UTC, from -12:00 to +14:00; empty means UTC.
	Offset string `json:"offset,omitempty"`
}

// Domain divides the clusters of a stage into failure domains, one for each value
// of a label, for example regions, and bounds how many of each are in flight.
type Domain struct {
	// Key is the label. Clusters without it are a domain of their own.
	Key string `json:"key"`
	// MaxConcurrency is how many clusters of one domain may be in flight at once,
	// over all groups of the stage: a number of at least 1, or a percentage from 1%
	// to 100% of the domain's clusters in the stage, rounded down, at least 1.
	// Default: 1.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
}

// maxDomainKeys is how many labels a stage may divide its clusters by.
const maxDomainKeys = 4

// Flow is what a stage or a group has of a step of a workflow.
type Flow struct {
	// Pause makes it one that picks no clusters and whose tasks hold the run all the
	// same. It has at least one task before it and none after it.
	Pause bool `json:"pause,omitempty"`
	// Timeout is how long it may take from when its gates before have passed until
	// its last cluster has ended; 0 means for ever. Past it what is in flight has
	// failed, and the run goes the way of one whose budget is exceeded. Time in
	// which the run is stopped or about to be does not count. That of a Pause counts
	// from when it is reached.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Always runs it also when the run has failed or was aborted before. Only
	// profile Workflow has it.
	Always bool `json:"always,omitempty"`
}

// OnFailure is what becomes of a run of profile Workflow past a budget or a
// timeout.
type OnFailure string

// What to do on a failure.
const (
	// SuspendRun stops the run, to be resumed or aborted. It is the default.
	SuspendRun OnFailure = "Suspend"
	// EndRun ends the run as Failed, once what runs always has run.
	EndRun OnFailure = "End"
)

// RollbackPolicy says when a run rolls back what it brought, and how. What takes it
// back is a run of its own, of the plan that [RollBack] makes.
type RollbackPolicy struct {
	// Causes are what makes a run roll back what it brought, besides the command
	// [RequestRollback], which always may; none means BudgetExceeded and GateRejected.
	Causes []RollbackCause `json:"causes,omitempty"`
	// New says what becomes of clusters that had nothing of the placement before;
	// RemoveNew when empty.
	New NewClusters `json:"newClusters,omitempty"`
	// Approval, where not nil, is asked for before the first cluster goes back.
	Approval *approval.Policy `json:"approval,omitempty"`
}

// RollbackCause is why a run rolls back what it brought.
type RollbackCause string

// The causes.
const (
	// BudgetExceeded: more clusters have failed than a stage or a group may have.
	BudgetExceeded RollbackCause = "BudgetExceeded"
	// GateRejected: a request of the run was rejected, or a check before or after a stage or a group failed.
	GateRejected RollbackCause = "GateRejected"
	// OnCommand: a command asked for it. As the only one in [RollbackPolicy].Causes it means
	// that nothing is rolled back otherwise.
	OnCommand RollbackCause = "Command"
)

// NewClusters says what becomes of clusters that had nothing before a run.
type NewClusters string

// What may become of them.
const (
	// RemoveNew cleans them, as clusters that left the placement.
	RemoveNew NewClusters = "Remove"
	// LeaveNew leaves them as they are.
	LeaveNew NewClusters = "Leave"
)
