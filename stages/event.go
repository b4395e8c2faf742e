package stages

import "time"

// EventType is the kind of an [Event]. The constants are in blocks: of placements from
// [SnapshotTaken], of runs from [RunQueued], of stages from [StageStarted], of gates from
// [WaitStarted], of checks from [CheckMeasured], and of clusters from [ClusterStarted].
type EventType string

// Events about placements. Package fleet emits them, including the events about records of runs;
// step.Step emits all other events. Each has the field Placement.
const (
	// SnapshotTaken: the placement has a new snapshot.
	// Fields: Index and Digest of the snapshot, Count of its objects, Message with its name.
	SnapshotTaken EventType = "SnapshotTaken"
	// SelectionChanged: the policy of the placement selects other clusters than before.
	// Fields: Index and Digest of the selection, Count of its clusters.
	SelectionChanged EventType = "SelectionChanged"
	// RunCreated: a run and its plan were recorded.
	// Fields: Run, Index of the snapshot, Digest of the plan, Count of its clusters, By, the
	// identity that created the run. Message names the run that a rollback rolls back, and why.
	RunCreated EventType = "RunCreated"
	// RunTaken: an engine became the driver of the run.
	// Fields: Run, By with the name of the engine, Epoch of its lease.
	RunTaken EventType = "RunTaken"
	// RunDeleted: the run was deleted, with its events.
	// Fields: Run.
	RunDeleted EventType = "RunDeleted"
	// RollbackRefused: the engine does not roll the run back.
	// Fields: Run, Message with the reason.
	RollbackRefused EventType = "RollbackRefused"
	// SnapshotIrreversible: no rollback may go past this snapshot any more.
	// Fields: Index of the snapshot, By.
	SnapshotIrreversible EventType = "SnapshotIrreversible"
	// SnapshotReversible: the irreversible mark of a snapshot was removed.
	// Fields: Index of the snapshot, By.
	SnapshotReversible EventType = "SnapshotReversible"
	// DriftFound: a cluster has a new kind of drift.
	// Fields: Cluster, Count of its objects that differ, Message with the differences of the first
	// object.
	DriftFound EventType = "DriftFound"
	// DriftCorrected: the engine corrected the drift of a cluster.
	// Fields: Cluster, Count of the objects that differed, Message with the differences of the
	// first, and with the hint that another writer changes it again and again.
	DriftCorrected EventType = "DriftCorrected"
	// PlacementDeleting: the deletion of the placement has begun.
	// Fields: By. Message is Delete if its objects are deleted, and Orphan if they stay.
	PlacementDeleting EventType = "PlacementDeleting"
	// PlacementDeleted: nothing of the placement is stored any more.
	// Fields: By, Count of the cleaned clusters, Message with the objects left on clusters.
	PlacementDeleted EventType = "PlacementDeleted"
)

// Events about runs. Each has the fields Placement and Run.
const (
	// RunQueued: the run waits for another run of its placement.
	// Fields: Message with the name of that run.
	RunQueued EventType = "RunQueued"
	// RunStarted: the first stage of the run begins.
	// Fields: Index of the snapshot, Digest of the plan.
	RunStarted EventType = "RunStarted"
	// RunStopping: no further cluster starts, and the run stops or ends once no cluster is in
	// flight.
	// Fields: By, if a command is the reason. Message with the reason.
	RunStopping EventType = "RunStopping"
	// RunStopped: no cluster is in flight; the run can be started again.
	// Fields: Message with the reason.
	RunStopped EventType = "RunStopped"
	// RunResumed: a stopped or failed run was started again.
	// Fields: By, Attempt of the run.
	RunResumed EventType = "RunResumed"
	// RunRetried: failed or skipped clusters of the current stage will be retried.
	// Fields: By, Count of the clusters, Message with their state: failed, skipped or both.
	RunRetried EventType = "RunRetried"
	// RollbackRequested: a command or the strategy requires the rollback of the run.
	// Fields: By, if it was a command. Message with the reason.
	RollbackRequested EventType = "RollbackRequested"
	// RunClosing: the run has failed or was aborted, and still runs its stages and groups that
	// always run, as [Flow] says.
	// Fields: Message with the reason.
	RunClosing EventType = "RunClosing"
	// RunCompleted: the last stage is done.
	// Fields: Count of the completed clusters.
	RunCompleted EventType = "RunCompleted"
	// RunFailed: the run ended, because a budget was exceeded or a gate was rejected.
	// Fields: Message with the reason.
	RunFailed EventType = "RunFailed"
	// RunAborted: the run was aborted and has ended.
	// Fields: By, unless stages or groups that always run ran in between. Message with the reason.
	RunAborted EventType = "RunAborted"
	// RunSuperseded: the run ended, because another run takes its place.
	// Fields: Message with the name of that run.
	RunSuperseded EventType = "RunSuperseded"
	// WindowsBypassed: clusters may start outside their maintenance windows.
	// Fields: By, Until, Message of the command.
	WindowsBypassed EventType = "WindowsBypassed"
	// CommandAccepted: a command was accepted and has no visible effect yet.
	// Fields: Command, By, Message with the time or the condition of its effect.
	CommandAccepted EventType = "CommandAccepted"
	// CommandRefused: a command did not fit the state of the run.
	// Fields: Command, By, Message with the reason.
	CommandRefused EventType = "CommandRefused"
)

// Events about stages. Each has the fields Placement, Run and Stage.
const (
	// StageStarted: the gates before the stage are passed.
	// Fields: Count of the clusters of the stage.
	StageStarted EventType = "StageStarted"
	// StageSkipped: no cluster was updated in the stage.
	// Fields: none.
	StageSkipped EventType = "StageSkipped"
	// StageCompleted: the clusters of the stage have ended, and the gates after it are passed.
	// Fields: Count of the completed clusters.
	StageCompleted EventType = "StageCompleted"
)

// Events about gates. Each has the fields Placement, Run and Stage, and Group if the gate belongs
// to a group. The Digest of an event about an approval is the digest of the run's plan.
const (
	// WaitStarted: the run reached a TimedWait or a ScheduledStart.
	// Fields: Until, Message "scheduled start" for a ScheduledStart.
	WaitStarted EventType = "WaitStarted"
	// WaitEnded: the wait is over.
	// Fields: By, if an identity ended it early. Message "scheduled start" for a ScheduledStart.
	WaitEnded EventType = "WaitEnded"
	// ApprovalRequested: the run waits for an approval.
	// Fields: Request, Attempt, Digest, Until the request expires, if it does.
	ApprovalRequested EventType = "ApprovalRequested"
	// ApprovalGiven: an identity approved, and the gate needs more approvals. The last approval is
	// an ApprovalAccepted instead.
	// Fields: Request, Attempt, Digest, By, Message with the beginning of the comment.
	ApprovalGiven EventType = "ApprovalGiven"
	// ApprovalEarly: an authority gave an approval with PointInTime while other approvals are
	// missing. The engine asks it again, after the others.
	// Fields: Request, Attempt, Digest, By, Message with the beginning of the comment.
	ApprovalEarly EventType = "ApprovalEarly"
	// ApprovalAccepted: the approvals of the gate are complete.
	// Fields: Request, Attempt, Digest, By with the identity that approved last, Message with the
	// beginning of its comment.
	ApprovalAccepted EventType = "ApprovalAccepted"
	// ApprovalRejected: an identity rejected the request.
	// Fields: Request, Attempt, Digest, By, Message with the beginning of the comment.
	ApprovalRejected EventType = "ApprovalRejected"
	// ApprovalExpired: the request expired; the next attempt asks again.
	// Fields: Request, Attempt, Digest.
	ApprovalExpired EventType = "ApprovalExpired"
)

// Events about checks. Each has the fields Placement, Run and Stage, Group if the check belongs to
// a group, and Cluster if it measures a cluster.
const (
	// CheckMeasured: the result of a measurement differs from the one before.
	// Fields: Check, Result of the measurement, Value, the resolved Query, Count of the
	// measurements so far, Attempt of the gate or the cluster, Message.
	CheckMeasured EventType = "CheckMeasured"
	// CheckEnded: the check has a verdict.
	// Fields: Check, Result of the check, Value, the resolved Query, Count of the measurements,
	// Attempt of the gate or the cluster, Message.
	CheckEnded EventType = "CheckEnded"
)

// Events about clusters. Each has the fields Placement, Run, Stage, Group and Cluster.
const (
	// ClusterStarted: an attempt began that is not a retry. A new try to reach a Pending cluster is
	// not a start.
	// Fields: Attempt.
	ClusterStarted EventType = "ClusterStarted"
	// ClusterPending: the cluster yielded its slot, is outside its window, or is Pending for a new
	// reason. If more than 8 clusters of a group are outside their windows at once, one event has
	// their Count and no Cluster; its Message and Until are from the first window that opens.
	// Fields: Attempt that comes next, Until the next try, Message with the reason, Count.
	ClusterPending EventType = "ClusterPending"
	// ClusterApplied: all objects are applied, and the cluster must become healthy. A cluster that
	// had the revision before the run has no such event.
	// Fields: Attempt.
	ClusterApplied EventType = "ClusterApplied"
	// ClusterUnhealthy: the cluster was healthy and no longer is, so its soak and its
	// checks start again.
	// Fields: Attempt, Message with the reason.
	ClusterUnhealthy EventType = "ClusterUnhealthy"
	// ClusterRetrying: the attempt failed, and the next attempt follows after a backoff.
	// Fields: Attempt that failed, Until the start of the next, Message with the reason.
	ClusterRetrying EventType = "ClusterRetrying"
	// ClusterCompleted: the cluster is proven to have the revision, and it is healthy.
	// Fields: Attempt, Unchanged.
	ClusterCompleted EventType = "ClusterCompleted"
	// ClusterFailed: the last attempt failed.
	// Fields: Attempt, Message with the reason.
	ClusterFailed EventType = "ClusterFailed"
	// ClusterSkipped: the run does not update the cluster. If several clusters of a group are
	// skipped at once, the event has no Cluster, and Count is the number of clusters that were not
	// skipped before.
	// Fields: Message with the reason, Count.
	ClusterSkipped EventType = "ClusterSkipped"
	// ClusterRemoved: the objects of the placement are removed from a cluster that left it.
	// Fields: Attempt, Unchanged.
	ClusterRemoved EventType = "ClusterRemoved"
	// ObjectsReleased: objects are or will be left on the cluster instead of deleted, for example
	// because nothing proves that the placement created them. Outside of runs, package fleet emits
	// it too, without Run, Stage and Group.
	// Fields: Attempt, Message with some of the objects and the reason.
	ObjectsReleased EventType = "ObjectsReleased"
	// ObjectsAltered: objects are applied without a part that the API server of the cluster
	// rejects, as kubectl would apply them: see ClientSide in package apply.
	// Fields: Attempt, Message with the objects and the parts.
	ObjectsAltered EventType = "ObjectsAltered"
)

// Event is a record of something that happened. Fields that do not apply are zero and absent
// from its JSON.
type Event struct {
	// Time is when it happened, by the clock of the engine.
	Time time.Time `json:"time"`
	// Type is the type of the event.
	Type EventType `json:"type"`
	// Placement is the name of the placement.
	Placement string `json:"placement,omitempty"`
	// Run is the name of the run.
	Run string `json:"run,omitempty"`
	// Stage is the name of the stage.
	Stage string `json:"stage,omitempty"`
	// Group is the name of the group in the stage.
	Group string `json:"group,omitempty"`
	// Cluster is the name of the cluster.
	Cluster string `json:"cluster,omitempty"`
	// Index is the index of a snapshot or a selection.
	Index *int `json:"index,omitempty"`
	// Digest is the digest of a snapshot, a selection or a plan.
	Digest string `json:"digest,omitempty"`
	// Attempt is the attempt of a cluster, a request, a check or the run, from 1.
	Attempt int `json:"attempt,omitempty"`
	// Count is a number of clusters, of objects or of measurements.
	Count int `json:"count,omitempty"`
	// Epoch is the epoch of the lease. It rises with each engine that takes the run.
	Epoch int64 `json:"epoch,omitempty"`
	// Request is the name of an approval request.
	Request string `json:"request,omitempty"`
	// Command is the verb of a command.
	Command string `json:"command,omitempty"`
	// By is the name of the identity that acted, or of the engine.
	By string `json:"by,omitempty"`
	// Unchanged reports whether the cluster had the revision before the run.
	Unchanged bool `json:"unchanged,omitempty"`
	// Until is when a wait, a request, a backoff or a bypass ends.
	Until time.Time `json:"until,omitzero"`
	// Message is a text for people, and may change.
	Message string `json:"message,omitempty"`
	// Check is the name of the check that was measured.
	Check string `json:"check,omitempty"`
	// Result is the result of the measurement or of the check, for example Successful.
	Result string `json:"result,omitempty"`
	// Value is the measured value.
	Value string `json:"value,omitempty"`
	// Query is the query with its variables replaced.
	Query string `json:"query,omitempty"`
}
