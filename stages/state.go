package stages

import (
	"iter"
	"time"

	"github.com/slipway-dev/slipway/stages/event"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// The types below are those of packages runstate and event, which document them whole. They
// have names here because they are what [Step] takes and returns.

// Action is a request to the driver, to be carried out once the run is saved.
type Action = runstate.Action

// ActionType says what an Action does.
type ActionType = runstate.ActionType

// The types of action.
const (
	Apply   = runstate.Apply
	Observe = runstate.Observe
	Remove  = runstate.Remove
	Ask     = runstate.Ask
	Measure = runstate.Measure
)

// Answer is the answer of an authority to a request as it was then.
type Answer = runstate.Answer

// Bypass is a permission to start clusters outside their windows.
type Bypass = runstate.Bypass

// Calendar returns the maintenance windows and freezes of the clusters of a plan.
type Calendar = runstate.Calendar

// Clock is the timeout of a stage or a group that has begun.
type Clock = runstate.Clock

// Closing is the state of a run that has failed or was aborted and continues only with what runs always.
type Closing = runstate.Closing

// Command is a request of an operator to a run.
type Command = runstate.Command

// Event is something that happened, as a value.
type Event = event.Event

// EventType says what happened.
type EventType = event.Type

// The types of event.
const (
	SnapshotTaken        = event.SnapshotTaken
	SelectionChanged     = event.SelectionChanged
	RunCreated           = event.RunCreated
	RunQueued            = event.RunQueued
	RunDeleted           = event.RunDeleted
	DriftFound           = event.DriftFound
	DriftCorrected       = event.DriftCorrected
	PlacementDeleting    = event.PlacementDeleting
	PlacementDeleted     = event.PlacementDeleted
	RollbackRefused      = event.RollbackRefused
	SnapshotIrreversible = event.SnapshotIrreversible
	SnapshotReversible   = event.SnapshotReversible
	RunTaken             = event.RunTaken
	RunStarted           = event.RunStarted
	RunStopping          = event.RunStopping
	RunStopped           = event.RunStopped
	RunResumed           = event.RunResumed
	RunRetried           = event.RunRetried
	RollbackRequested    = event.RollbackRequested
	RunClosing           = event.RunClosing
	RunCompleted         = event.RunCompleted
	RunFailed            = event.RunFailed
	RunAborted           = event.RunAborted
	RunSuperseded        = event.RunSuperseded
	StageStarted         = event.StageStarted
	StageSkipped         = event.StageSkipped
	StageCompleted       = event.StageCompleted
	WaitStarted          = event.WaitStarted
	WaitEnded            = event.WaitEnded
	ApprovalRequested    = event.ApprovalRequested
	ApprovalGiven        = event.ApprovalGiven
	ApprovalEarly        = event.ApprovalEarly
	ApprovalAccepted     = event.ApprovalAccepted
	ApprovalRejected     = event.ApprovalRejected
	ApprovalExpired      = event.ApprovalExpired
	CheckMeasured        = event.CheckMeasured
	CheckEnded           = event.CheckEnded
	ClusterStarted       = event.ClusterStarted
	ClusterPending       = event.ClusterPending
	ClusterApplied       = event.ClusterApplied
	ClusterUnhealthy     = event.ClusterUnhealthy
	ClusterRetrying      = event.ClusterRetrying
	ClusterCompleted     = event.ClusterCompleted
	ClusterFailed        = event.ClusterFailed
	ObjectsReleased      = event.ObjectsReleased
	ObjectsAltered       = event.ObjectsAltered
	ClusterSkipped       = event.ClusterSkipped
	ClusterRemoved       = event.ClusterRemoved
	WindowsBypassed      = event.WindowsBypassed
	CommandAccepted      = event.CommandAccepted
	CommandRefused       = event.CommandRefused
)

// Unsuccessful is a range of clusters that were skipped or failed.
type Unsuccessful = runstate.Unsuccessful

// InFlight is a cluster in flight.
type InFlight = runstate.InFlight

// Gate is a task of a stage or a group that the run has reached.
type Gate = runstate.Gate

// GateOutline is the state of a task of a stage or a group: NotStarted before the run has reached it, then
// Pending, Completed, Skipped or, where it was rejected, Failed.
type GateOutline = runstate.GateOutline

// GroupOutline is the state of a group.
type GroupOutline = runstate.GroupOutline

// GroupRun counts the clusters of a group.
type GroupRun = runstate.GroupRun

// Input is what is new since the last step.
type Input = runstate.Input

// Instant is a moment in milliseconds since the Unix epoch; 0 is none.
type Instant = runstate.Instant

// Observation is the state of a cluster as it was read during an attempt.
type Observation = runstate.Observation

// Only restricts a Retry to some clusters.
type Only = runstate.Only

// What a Retry can be about; empty means both.
const (
	OnlyFailed  = runstate.OnlyFailed
	OnlySkipped = runstate.OnlySkipped
)

// Outline is the state of a run, as people see it.
type Outline = runstate.Outline

// Deferred is a range of clusters that have not started while others behind them have.
type Deferred = runstate.Deferred

// ClusterPhase is the phase of a cluster in flight.
type ClusterPhase = runstate.ClusterPhase

// The phases of a cluster in flight.
const (
	Applying   = runstate.Applying
	Settling   = runstate.Settling
	Soaking    = runstate.Soaking
	BackingOff = runstate.BackingOff
	Measuring  = runstate.Measuring
)

// Ready is the outcome of a step: save Run and Events, then do Actions, then step again
// at Wake or when there is input.
type Ready = runstate.Ready

// Run is the whole state of a run besides its plan: small, plain data, stored as it is.
type Run = runstate.Run

// RunError says why a run is not one of a plan.
type RunError = runstate.RunError

// SkipScope is the extent of a Skip command.
type SkipScope = runstate.SkipScope

// The scopes of a skip.
const (
	SkipCluster   = runstate.SkipCluster
	SkipGroup     = runstate.SkipGroup
	SkipStage     = runstate.SkipStage
	SkipAfterWait = runstate.SkipAfterWait
)

// StageOutline is the state of a stage, as people see it.
type StageOutline = runstate.StageOutline

// StageRun is the state of a stage, as it is stored.
type StageRun = runstate.StageRun

// State is the state of a run, a stage or a cluster.
type State = runstate.State

// The states.
const (
	NotStarted = runstate.NotStarted
	Pending    = runstate.Pending
	Running    = runstate.Running
	Stopping   = runstate.Stopping
	Stopped    = runstate.Stopped
	Skipped    = runstate.Skipped
	Failed     = runstate.Failed
	Completed  = runstate.Completed
	Aborted    = runstate.Aborted
	Superseded = runstate.Superseded
)

// RollbackRequest is the request to roll a run back.
type RollbackRequest = runstate.RollbackRequest

// Verb is the kind of a Command.
type Verb = runstate.Verb

// The verbs.
const (
	Start           = runstate.Start
	Stop            = runstate.Stop
	Abort           = runstate.Abort
	Skip            = runstate.Skip
	Decide          = runstate.Decide
	Supersede       = runstate.Supersede
	Retry           = runstate.Retry
	RequestRollback = runstate.RequestRollback
	CompleteGate    = runstate.CompleteGate
	BypassWindows   = runstate.BypassWindows
)

// Window is a time in which a cluster may be started, or one in which it may not.
type Window = runstate.Window

// Retrying is a cluster without a slot that is started again later.
type Retrying = runstate.Retrying

// At returns t as an Instant, rounded down.
func At(t time.Time) Instant { return runstate.At(t) }

// Check returns a [*RunError] where r is not a run that [NewRun] and [Step] can have made of
// the plan p, see [runstate.Check].
func Check(p *Plan, r *Run) error { return runstate.Check(p, r) }

// Derive returns the state of the run, its stages, groups and gates, see [runstate.Derive].
func Derive(p *Plan, r *Run) Outline { return runstate.Derive(p, r) }

// States yields the state of every cluster of the plan, by position, see [runstate.States].
func States(p *Plan, r *Run) iter.Seq2[int, State] { return runstate.States(p, r) }
