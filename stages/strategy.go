package stages

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/check"
)

// Profile presets how a run reacts when clusters fail. All profiles share one state machine; a
// profile presets fields that a [Strategy] leaves empty and decides whether a failed run is
// terminal.
type Profile string

// The profiles.
const (
	// Staged is the default and behaves like a KubeFleet staged update run: a failing
	// cluster is retried without end, keeps its slot and shows the reason. A failed run is
	// terminal.
	Staged Profile = "Staged"
	// ClusterUpdate behaves like an Azure cluster update run: one attempt per cluster, and
	// no failure is tolerated unless MaxFailures allows it. A failed run can be started
	// again and continues with the unprocessed clusters.
	ClusterUpdate Profile = "ClusterUpdate"
	// Workflow behaves like a KubeVela workflow: ten retries. A run that exceeds its budget
	// is suspended (state Stopped) until it is resumed or aborted.
	Workflow Profile = "Workflow"
)

// Unassigned selects how the planner treats a placed cluster that no stage selects.
type Unassigned string

// The values of Unassigned.
const (
	// UnassignedError fails the planning. It is the default.
	UnassignedError Unassigned = "Error"
	// UnassignedExclude leaves the cluster out, with a warning. A stage with groups then
	// contains only the clusters that one of its groups selects.
	UnassignedExclude Unassigned = "Exclude"
	// UnassignedFinalStage updates the clusters in a last stage, "unassigned", as if the
	// strategy ended with a stage of that name whose Rest is set. There is no such stage if
	// there are no such clusters.
	UnassignedFinalStage Unassigned = "FinalStage"
)

// Names of stages that the planner adds. A strategy cannot use them.
const (
	FinalStageName = "unassigned"
	// RemovalStageName is the stage in which clusters that left the placement are cleaned.
	RemovalStageName = "remove"
)

// Strategy is a template that sets the order and the speed of a rollout. A [Plan] freezes it.
// Durations are from 0 to 365 days, and texts such as "10s" or "1h30m" in JSON and YAML.
//
// A strategy that sets only its stages waits patiently: each stage updates its clusters one
// after the other and retries a failing cluster without end, after 1 s, 2 s, 4 s and so on up
// to 1 min. The cluster keeps its slot and never counts as failed, and the run waits until the
// cluster is updated or skipped, or until the run is stopped or aborted. Therefore neither the
// default MaxFailures of 0 nor a Rollback for BudgetExceeded has an effect, unless
// ProgressDeadline limits the time or Attempts the tries, as profiles ClusterUpdate and
// Workflow do. Plan.Warnings names budgets without effect. It also names stages that update
// many clusters one after the other because a percentage resolves to 1, because of
// StrictFailures, or because MaxConcurrency is not set.
type Strategy struct {
	// Name is a DNS subdomain, or empty.
	Name string `json:"name"`
	// Stages run one after the other; there is at least one.
	Stages []Stage `json:"stages"`
	// Unassigned is UnassignedError when empty.
	Unassigned Unassigned `json:"unassigned,omitempty"`
	// Removal governs the stage that cleans clusters that left the placement.
	Removal Removal `json:"removal,omitzero"`

	// Cap is the name of a [Cap] that bounds the clusters in flight over all runs whose
	// strategies name it; empty means no cap. Clusters that are being cleaned count too.
	Cap string `json:"cap,omitempty"`

	// Profile is Staged when empty.
	Profile Profile `json:"profile,omitempty"`
	// Requests says how the approval requests of a run are named; default approval.NamedBySide.
	Requests approval.Naming `json:"requests,omitempty"`
	// Attempts is the maximum number of attempts for a cluster; 0 means as the profile says
	// (Staged without end, ClusterUpdate 1, Workflow 11), -1 without end.
	Attempts int `json:"attempts,omitempty"`
	// Backoff is the wait before the second attempt; it doubles with each attempt up to
	// MaxBackoff. Defaults: 1 s for Backoff; for MaxBackoff 1 min, or Backoff if that is
	// longer. After a permanent error, for example a forbidden or invalid object, the wait
	// is MaxBackoff at once because an early retry does not help; the message of the
	// cluster says so.
	Backoff    metav1.Duration `json:"backoff,omitzero"`
	MaxBackoff metav1.Duration `json:"maxBackoff,omitzero"`
	// ProgressDeadline is the maximum duration of a cluster over all its attempts; after it the
	// cluster counts as failed. 0 means no limit. The time a cluster is Pending does not count.
	ProgressDeadline metav1.Duration `json:"progressDeadline,omitzero"`
	// UnreachableDeadline is the maximum time for which an unchanged cluster may be unreachable. The
	// time begins with the first attempt that fails to reach the cluster, and continues while the
	// cluster is Pending. Then the cluster has a last try, and counts as failed if that fails, too; a
	// rollback leaves it out. 0 means no limit. In the stage that cleans clusters Removal.Deadline is
	// the limit instead. A cluster with a reported change is limited by ProgressDeadline only.
	UnreachableDeadline metav1.Duration `json:"unreachableDeadline,omitzero"`
	// MinHealthy is the time that a cluster must be healthy before it is done; the time starts
	// again if the cluster becomes unhealthy. A cluster that had the revision already does not
	// wait.
	MinHealthy metav1.Duration `json:"minHealthy,omitzero"`
	// Rollback says when the run is rolled back; nil means never.
	Rollback *RollbackPolicy `json:"rollback,omitempty"`
	// OnFailure selects how a run of profile Workflow reacts to an exceeded budget or
	// timeout; SuspendRun when empty. Other profiles must leave it empty.
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
	// Take gives the stage a share of the clusters: it takes this many of the remaining clusters
	// that Selector matches, in the order of SortKey. A nil Selector matches all. A cluster remains
	// if no earlier stage with Take has taken it, and no stage at all that has neither Take nor
	// Rest selects it. Take is a number of at least 1, or a percentage from 1% to 100% of the
	// remaining clusters, rounded down, at least 1. The plan freezes the choice. Stages that take
	// 10%, 50% and 100% of 100 clusters have 10, 45 and 45.
	Take *intstr.IntOrString `json:"take,omitempty"`
	// Rest puts all clusters that no other stage has into this stage. Such a stage has no
	// Selector, Clusters or Take, and only stages with Pause may follow it.
	Rest bool `json:"rest,omitempty"`
	// SortKey is a label whose integer value orders the clusters, ascending,
	// then by name. Clusters without the label come last, by name.
	SortKey string `json:"sortingLabelKey,omitempty"`
	// Groups divide the stage into parts that run in parallel. Exactly one group must pick each
	// cluster of the stage. An empty list means one group.
	Groups []Group `json:"groups,omitempty"`
	// MaxConcurrency is the maximum number of clusters of the stage in flight, a number of at
	// least 1 or a percentage from 1% to 100% of the stage's clusters, rounded down, at least 1.
	// Default: 1 without groups, no limit of its own with groups.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// MaxFailures is the maximum number of clusters of the stage that may fail, a number of at
	// least 0 or a percentage from 0% to 100%, rounded up. Default: 0. If attempts never end and
	// there is no deadline, no cluster fails.
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`
	// StrictFailures makes MaxFailures a strict limit: a cluster starts only while the failed
	// clusters and the clusters in flight, including this one, are at most MaxFailures. Then no
	// more clusters can fail, whatever the concurrency. The run ends as Failed if MaxFailures is
	// used up and clusters are left. It needs a MaxFailures of at least 1. Without it, clusters in
	// flight may still fail after the budget is exceeded.
	StrictFailures bool `json:"strictFailures,omitempty"`
	// Domains bound how many clusters of one region, zone or the like are in flight at
	// once, at most 4 labels. A cluster starts only while each of its domains has room;
	// until then other clusters go first, in their order.
	Domains []Domain `json:"domains,omitempty"`
	Before  []Task   `json:"beforeStageTasks,omitempty"`
	After   []Task   `json:"afterStageTasks,omitempty"`
	// Checks are measured for as long as clusters of the stage are updated. While the last
	// measurement of a check is bad, no cluster starts and the run does not leave the
	// stage. Each bad measurement beyond the limit of its check counts as a failed cluster
	// in MaxFailures.
	Checks []check.Check `json:"checks,omitempty"`
	// ClusterChecks are measured for each cluster after it has been healthy for MinHealthy.
	// The cluster keeps its slot until they are Successful. It fails as soon as one check ends in
	// another way, whatever Attempts says. A cluster that already had the revision is not measured.
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
	// New puts into this group the clusters of the stage that have nothing of the placement yet,
	// see [Target].New; the other groups select among the rest. Because an update cannot interrupt
	// anything on a new cluster, the group can bring up its clusters without waiting for, or
	// delaying, clusters that are updated at a lower MaxConcurrency. A group with New has no
	// Selector or Clusters, and may be empty. A stage has at most one.
	New bool `json:"new,omitempty"`
	// UnprovenFirst makes the group begin with its unproven clusters, see [Target].Unproven,
	// whatever the order of the others. If the run replaces another run, it changes no further
	// cluster before the clusters that the other run left unproven are in flight or proven.
	// Therefore MaxConcurrency limits the clusters that both runs together may have made
	// unavailable. An unproven cluster that cannot be reached, is outside its windows or has a full
	// domain keeps a slot. It loses the slot if it is skipped or fails.
	UnprovenFirst bool `json:"unprovenFirst,omitempty"`
	// SortKey is the stage's when empty.
	SortKey string `json:"sortingLabelKey,omitempty"`
	// MaxConcurrency and MaxFailures are as in Stage, over the group's clusters. MaxConcurrency is
	// 1 by default; by default there is no MaxFailures for the group alone.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	MaxFailures    *intstr.IntOrString `json:"maxFailures,omitempty"`
	// StrictFailures is as in Stage, over the group's clusters.
	StrictFailures bool `json:"strictFailures,omitempty"`
	// Before and After are tasks that this group waits for; the other groups of the stage continue.
	Before []Task `json:"beforeGroupTasks,omitempty"`
	After  []Task `json:"afterGroupTasks,omitempty"`
	// DependsOn names groups of the stage that have to end before this one begins.
	DependsOn []string `json:"dependsOn,omitempty"`
	Flow
}

// Removal sets how clusters that left the placement are cleaned: after all stages, in the order
// of their names.
type Removal struct {
	// MaxConcurrency as in Stage; default 1.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// Deadline is how long the removal waits for an unreachable cluster before it skips the
	// cluster. Default 5 min.
	Deadline metav1.Duration `json:"deadline,omitzero"`
	Before   []Task          `json:"beforeStageTasks,omitempty"`
	After    []Task          `json:"afterStageTasks,omitempty"`
	// Only, if not empty, makes a run an eviction: it updates nothing and cleans exactly
	// these clusters, whether or not the placement picks them. Until the run has ended they
	// are not picked; later decisions may pick them again. A run that supersedes others
	// does not supersede an eviction. The stages of the strategy stay empty, and it has no
	// Rollback.
	Only []string `json:"only,omitempty"`
}

// TaskType is the kind of a [Task].
type TaskType string

// The types of a task.
const (
	TimedWait TaskType = "TimedWait"
	Approval  TaskType = "Approval"
	// ScheduledStart waits before a stage or a group for the next time that its
	// Schedule names.
	ScheduledStart TaskType = "ScheduledStart"
	// CheckTask waits until its Checks are Successful. The last measurement of each check
	// must be made after all other tasks of its side have finished, so that a result from
	// before the last approval is measured again. The task is rejected with the first check
	// that fails.
	CheckTask TaskType = "Check"
)

// Task delays a run before or after a stage or a group until a condition is met. Each side, Before
// or After, takes at most one task of each type; the tasks of a side start at the same instant and
// must all finish.
type Task struct {
	Type TaskType `json:"type"`
	// Wait is the duration of a TimedWait, more than 0 and at most 365 days.
	Wait metav1.Duration `json:"waitTime,omitzero"`
	// Approval is the policy of an Approval; nil is the zero Policy.
	Approval *approval.Policy `json:"approval,omitempty"`
	// Schedule is the schedule of a ScheduledStart.
	Schedule *Schedule `json:"schedule,omitempty"`
	// Checks are the checks of a CheckTask, at least one.
	Checks []check.Check `json:"checks,omitempty"`
	// DisplayName is a name for people, at most 100 characters. Nothing depends on it.
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
	// MaxConcurrency is the maximum number of clusters of one domain in flight at once, over all
	// groups of the stage: a number of at least 1, or a percentage from 1% to 100% of the domain's
	// clusters in the stage, rounded down, at least 1. Default: 1.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
}

// maxDomainKeys is the maximum number of labels by which a stage may divide its clusters.
const maxDomainKeys = 4

// Flow holds the workflow settings that a stage and a group share.
type Flow struct {
	// Pause makes a stage or group without clusters, whose tasks still delay the run. It must have
	// at least one task before it and none after it.
	Pause bool `json:"pause,omitempty"`
	// Timeout limits the time from the end of the gates before the stage or group until its
	// last cluster has ended; 0 means no limit. After it, the clusters in flight count as
	// failed, and the run continues like a run that exceeded its budget. The time in which
	// the run is stopped or stopping does not count. The timeout of a Pause begins when the
	// run reaches the Pause.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Always runs the stage or group even if the run has failed or was aborted before. Only
	// profile Workflow has it.
	Always bool `json:"always,omitempty"`
}

// OnFailure selects how a run of profile Workflow reacts to an exceeded budget or timeout.
type OnFailure string

// The values of OnFailure.
const (
	// SuspendRun stops the run, to be resumed or aborted. It is the default.
	SuspendRun OnFailure = "Suspend"
	// EndRun ends the run as Failed after its stages and groups with Always have run.
	EndRun OnFailure = "End"
)

// RollbackPolicy says when and how a run is rolled back. A run of its own does the rollback,
// with the plan that step.RollBack makes.
type RollbackPolicy struct {
	// Causes are the reasons for which a run is rolled back; none means BudgetExceeded and
	// GateRejected. RunHandle.Rollback of package fleet may always roll a run back.
	Causes []RollbackCause `json:"causes,omitempty"`
	// New says how a rollback treats clusters that had nothing of the placement before;
	// RemoveNew when empty.
	New NewClusters `json:"newClusters,omitempty"`
	// Approval, if not nil, must be granted before the first cluster is rolled back.
	Approval *approval.Policy `json:"approval,omitempty"`
}

// RollbackCause is the reason for which a run is rolled back.
type RollbackCause string

// The causes.
const (
	// BudgetExceeded: more clusters have failed than a stage or a group may have.
	BudgetExceeded RollbackCause = "BudgetExceeded"
	// GateRejected: a request of the run was rejected, or a check before or after a stage
	// or group failed.
	GateRejected RollbackCause = "GateRejected"
	// OnCommand: a command requested it. As the only entry of [RollbackPolicy].Causes it
	// excludes every other cause.
	OnCommand RollbackCause = "Command"
)

// NewClusters selects how a rollback treats clusters that had nothing before the run.
type NewClusters string

// The values of NewClusters.
const (
	// RemoveNew cleans them like clusters that left the placement.
	RemoveNew NewClusters = "Remove"
	// LeaveNew does not change them.
	LeaveNew NewClusters = "Leave"
)
