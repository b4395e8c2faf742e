package stages

import (
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/plan"
)

// The types below are those of package plan, which documents them whole. They have names
// here because a program that carries out runs needs both packages for nearly everything.

// The stages that a plan has beside those of its strategy.
const (
	FinalStageName   = plan.FinalStageName
	RemovalStageName = plan.RemovalStageName
)

// MaxPlacementName is how long the name of a placement may be.
const MaxPlacementName = plan.MaxPlacementName

// MaxLeft is how many clusters a plan names at most that have left the inventory.
const MaxLeft = plan.MaxLeft

// Domain divides the clusters of a stage into failure domains, one for each value of a
// label, for example regions, and bounds how many of each are in flight.
type Domain = plan.Domain

// Flow is what a stage or a group has of a step of a workflow.
type Flow = plan.Flow

// FormatError refuses a stored record that a newer version wrote.
type FormatError = plan.FormatError

// Group is a part of a stage.
type Group = plan.Group

// KeptClusters are clusters that stay as they are for a reason.
type KeptClusters = plan.KeptClusters

// NewClusters says what a rollback does with clusters that had nothing before the run.
type NewClusters = plan.NewClusters

// What may become of them.
const (
	RemoveNew = plan.RemoveNew
	LeaveNew  = plan.LeaveNew
)

// OnFailure is what a run of profile Workflow does past a budget or a timeout.
type OnFailure = plan.OnFailure

// What to do on a failure.
const (
	SuspendRun = plan.SuspendRun
	EndRun     = plan.EndRun
)

// Plan is a strategy resolved against clusters and a target.
type Plan = plan.Plan

// PlannedCluster is a cluster with what it gets.
type PlannedCluster = plan.PlannedCluster

// PlannedDomain is a failure domain of a stage with its number resolved: the clusters that have one value of a label.
type PlannedDomain = plan.PlannedDomain

// PlannedGate is a task on one side of a stage or a group.
type PlannedGate = plan.PlannedGate

// PlannedGroup is a group with its numbers resolved, and a range of Plan.Clusters.
type PlannedGroup = plan.PlannedGroup

// PlannedRollback marks the plan of a rollback, and says what it rolls back.
type PlannedRollback = plan.PlannedRollback

// PlannedStage is a stage with its numbers resolved.
type PlannedStage = plan.PlannedStage

// Profile presets what happens when clusters fail.
type Profile = plan.Profile

// The profiles.
const (
	Staged        = plan.Staged
	ClusterUpdate = plan.ClusterUpdate
	Workflow      = plan.Workflow
)

// Removal is how clusters that left the placement are cleaned: after all stages, by name.
type Removal = plan.Removal

// RollbackPolicy says when a run is rolled back, and how.
type RollbackPolicy = plan.RollbackPolicy

// RollbackCause is why a run is rolled back.
type RollbackCause = plan.RollbackCause

// The causes.
const (
	BudgetExceeded = plan.BudgetExceeded
	GateRejected   = plan.GateRejected
	OnCommand      = plan.OnCommand
)

// Schedule is a time of the week.
type Schedule = plan.Schedule

// Stage is a step of a strategy.
type Stage = plan.Stage

// Strategy says in which order and how fast a change reaches the clusters.
type Strategy = plan.Strategy

// Target is what a run brings the clusters to.
type Target = plan.Target

// Task holds a run before or after a stage or a group.
type Task = plan.Task

// TaskType is what a Task waits for.
type TaskType = plan.TaskType

// The types of tasks.
const (
	TimedWait      = plan.TimedWait
	Approval       = plan.Approval
	ScheduledStart = plan.ScheduledStart
	CheckTask      = plan.CheckTask
)

// Unassigned says what a plan does with a placed cluster that no stage selects.
type Unassigned = plan.Unassigned

// What may become of it.
const (
	UnassignedError      = plan.UnassignedError
	UnassignedExclude    = plan.UnassignedExclude
	UnassignedFinalStage = plan.UnassignedFinalStage
)

// NewPlan resolves a strategy and a target against the clusters that the target's decision
// picked, see [plan.New].
func NewPlan(s Strategy, t Target, clusters []placement.Cluster) (*Plan, error) {
	return plan.New(s, t, clusters)
}

// DecodePlan returns the plan that [Plan.Encode] stored, see [plan.Decode].
func DecodePlan(header []byte, pages [][]byte) (*Plan, error) { return plan.Decode(header, pages) }

// CatchUp returns the target of a run that takes the clusters which the run of p missed, and
// those that joined since, to what p froze, see [plan.CatchUp].
func CatchUp(p *Plan, missed []string, joined map[string]string) (Target, error) {
	return plan.CatchUp(p, missed, joined)
}
