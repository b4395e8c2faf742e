package event

import "time"

// Type says what happened.
type Type string

// The types of event. All of the engine's are here; those marked (fleet) are
// emitted by package fleet, the others by stages.Step.
const (
	// SnapshotTaken (fleet): a placement has a new snapshot. Index, Digest.
	SnapshotTaken Type = "SnapshotTaken"
	// SelectionChanged (fleet): the selected clusters changed. Index, Digest, Count.
	SelectionChanged Type = "SelectionChanged"
	// RunCreated (fleet): a run and its plan were recorded. Index, Digest of
	// the plan, Count of its clusters, By; of one that rolls back what a run brought,
	// Message.
	RunCreated Type = "RunCreated"
	// RunQueued: the run waits for the run named in Message.
	RunQueued Type = "RunQueued"
	// RunDeleted (fleet): the run was deleted, with its events.
	RunDeleted Type = "RunDeleted"
	// DriftFound (fleet): a cluster differs from what was placed in another way
	// than before. Count of its objects that differ, Message.
	DriftFound Type = "DriftFound"
	// DriftCorrected (fleet): what differed was put back. Count, Message.
	DriftCorrected Type = "DriftCorrected"
	// PlacementDeleting (fleet): the placement is being deleted. By, Message.
	PlacementDeleting Type = "PlacementDeleting"
	// PlacementDeleted (fleet): nothing is stored of the placement any more. By,
	// Count of the clusters that were cleaned, Message says what was left where.
	PlacementDeleted Type = "PlacementDeleted"
	// RollbackRefused (fleet): what the run brought is not rolled back. Message.
	RollbackRefused Type = "RollbackRefused"
	// SnapshotIrreversible (fleet): nothing is rolled back past a snapshot. Index, By.
	SnapshotIrreversible Type = "SnapshotIrreversible"
	// SnapshotReversible (fleet): the mark of that was taken away. Index, By.
	SnapshotReversible Type = "SnapshotReversible"
	// RunTaken (fleet): an engine took the run, By its name. Epoch.
	RunTaken Type = "RunTaken"

	RunStarted  Type = "RunStarted"  // Index, Digest of the plan
	RunStopping Type = "RunStopping" // By, Message
	RunStopped  Type = "RunStopped"  // Message
	RunResumed  Type = "RunResumed"  // By
	// RunRetried: what has failed or was skipped in the current stage is to be
	// tried again. By, Count, Message.
	RunRetried Type = "RunRetried"
	// RollbackRequested: what the run brought is to be rolled back. By, Message.
	RollbackRequested Type = "RollbackRequested"
	// RunClosing: the run has failed or was aborted, and goes on with what runs
	// always. Message.
	RunClosing    Type = "RunClosing"
	RunCompleted  Type = "RunCompleted"  // Count of completed clusters
	RunFailed     Type = "RunFailed"     // Message
	RunAborted    Type = "RunAborted"    // By, Message
	RunSuperseded Type = "RunSuperseded" // Message names the other run

	StageStarted   Type = "StageStarted"   // Count of its clusters
	StageSkipped   Type = "StageSkipped"   // no cluster was updated in it
	StageCompleted Type = "StageCompleted" // Count of completed clusters

	// WaitStarted: a TimedWait or a ScheduledStart was reached. Group where it is
	// that of one, Until, Message "scheduled start" for the latter.
	WaitStarted Type = "WaitStarted"
	// WaitEnded: Group and Message as before, By the identity that ended it before its time.
	WaitEnded Type = "WaitEnded"

	// The events of approvals have Request, Attempt and Digest, that of the plan that the request is about;
	// those of a decision have By, the identity that decided, and Message, the beginning of its comment.

	ApprovalRequested Type = "ApprovalRequested" // Until
	// ApprovalGiven: a decision was recorded and more are needed, or are recorded with
	// it.
	ApprovalGiven Type = "ApprovalGiven"
	// ApprovalEarly: an identity approved for a point in time, and more is needed first: it is asked again,
	// last.
	ApprovalEarly    Type = "ApprovalEarly"
	ApprovalAccepted Type = "ApprovalAccepted"
	ApprovalRejected Type = "ApprovalRejected"
	ApprovalExpired  Type = "ApprovalExpired"

	// CheckMeasured: a measurement came to something else than the one before. CheckEnded: a check came to its Result. Both have
	// Check, Result, Value, Query as it was asked, Count of the measurements so far, Message, Attempt of the gate or the cluster.
	CheckMeasured Type = "CheckMeasured"
	CheckEnded    Type = "CheckEnded"

	// ClusterStarted: an attempt began, other than a retry. Trying again to
	// reach a cluster that is Pending is not a start. Attempt.
	ClusterStarted Type = "ClusterStarted"
	// ClusterPending: the cluster yielded its slot, is outside its window, or is
	// Pending for another reason than before. Attempt that comes next, Message,
	// Until the next try. Of more than 8 clusters of a group that are outside
	// their windows at once it has no Cluster, and their Count; Message and Until
	// are those of the first window that opens.
	ClusterPending   Type = "ClusterPending"
	ClusterApplied   Type = "ClusterApplied"   // Attempt
	ClusterUnhealthy Type = "ClusterUnhealthy" // Message; soaking starts again
	ClusterRetrying  Type = "ClusterRetrying"  // Attempt, Message, Until
	ClusterCompleted Type = "ClusterCompleted" // Attempt, Unchanged
	ClusterFailed    Type = "ClusterFailed"    // Attempt, Message
	// ObjectsReleased: objects that were to go are given up and stay on the cluster, or will because nothing
	// proves that the placement created them. Attempt, Message, which names some of them and says why.
	ObjectsReleased Type = "ObjectsReleased"
	// ObjectsAltered: objects are applied without a part that the cluster's API server does not take, as kubectl would
	// have applied them: see the type ClientSideApply of package fleet. Attempt, Message, which names objects and parts.
	ObjectsAltered Type = "ObjectsAltered"
	// ClusterSkipped: Message. Of several clusters of a group at once it has
	// no Cluster, and Count of those that were not skipped before.
	ClusterSkipped Type = "ClusterSkipped"
	ClusterRemoved Type = "ClusterRemoved" // cleaned after it left

	// WindowsBypassed: clusters may start outside their windows. By, Until,
	// Message.
	WindowsBypassed Type = "WindowsBypassed"
	// CommandAccepted: a command was accepted and nothing else shows it yet. Command, By,
	// Message says when it counts.
	CommandAccepted Type = "CommandAccepted"
	// CommandRefused: a command did not fit the state. Command, By, Message.
	CommandRefused Type = "CommandRefused"
)

// Event is something that happened, as a value. Fields that do not apply are
// zero and are left out of its JSON.
type Event struct {
	Time      time.Time `json:"time"`
	Type      Type      `json:"type"`
	Placement string    `json:"placement,omitempty"`
	Run       string    `json:"run,omitempty"`
	Stage     string    `json:"stage,omitempty"`
	Group     string    `json:"group,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
	// Index is that of a snapshot or a selection.
	Index   *int   `json:"index,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Count   int    `json:"count,omitempty"`
	Epoch   int64  `json:"epoch,omitempty"`
	Request string `json:"request,omitempty"`
	Command string `json:"command,omitempty"`
	By      string `json:"by,omitempty"`
	// Unchanged reports whether the cluster had the revision before the run.
	Unchanged bool      `json:"unchanged,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	Message   string    `json:"message,omitempty"`
	// Check, Result, Value and Query are of a measurement.
	Check  string `json:"check,omitempty"`
	Result string `json:"result,omitempty"`
	Value  string `json:"value,omitempty"`
	Query  string `json:"query,omitempty"`
}
