package stages

import "time"

// EventType says what happened.
type EventType string

// The types of event. All of the engine's are here; those marked (fleet) are
// emitted by package fleet, the others by step.Step.
const (
	// SnapshotTaken (fleet): a placement has a new snapshot. Index, Digest.
	SnapshotTaken EventType = "SnapshotTaken"
	// SelectionChanged (fleet): the selected clusters changed. Index, Digest, Count.
	SelectionChanged EventType = "SelectionChanged"
	// RunCreated (fleet): a run and its plan were recorded. Index, Digest of
	// the plan, Count of its clusters, By; of one that rolls back what a run brought,
	// Message.
	RunCreated EventType = "RunCreated"
	// RunQueued: the run waits for the run named in Message.
	RunQueued EventType = "RunQueued"
	// RunDeleted (fleet): the run was deleted, with its events.
	RunDeleted EventType = "RunDeleted"
	// DriftFound (fleet): a cluster differs from what was placed in another way
	// than before. Count of its objects that differ, Message.
	DriftFound EventType = "DriftFound"
	// DriftCorrected (fleet): what differed was put back. Count, Message.
	DriftCorrected EventType = "DriftCorrected"
	// PlacementDeleting (fleet): the placement is being deleted. By, Message.
	PlacementDeleting EventType = "PlacementDeleting"
	// PlacementDeleted (fleet): nothing is stored of the placement any more. By,
	// Count of the clusters that were cleaned, Message says what was left where.
	PlacementDeleted EventType = "PlacementDeleted"
	// RollbackRefused (fleet): what the run brought is not rolled back. Message.
	RollbackRefused EventType = "RollbackRefused"
	// SnapshotIrreversible (fleet): nothing is rolled back past a snapshot. Index, By.
	SnapshotIrreversible EventType = "SnapshotIrreversible"
	// SnapshotReversible (fleet): the mark of that was taken away. Index, By.
	SnapshotReversible EventType = "SnapshotReversible"
	// RunTaken (fleet): an engine took the run, By its name. Epoch.
	RunTaken EventType = "RunTaken"

	RunStarted  EventType = "RunStarted"  // Index, Digest of the plan
	RunStopping EventType = "RunStopping" // By, Message
	RunStopped  EventType = "RunStopped"  // Message
	RunResumed  EventType = "RunResumed"  // By
	// RunRetried: what has failed or was skipped in the current stage is to be
	// tried again. By, Count, Message.
	RunRetried EventType = "RunRetried"
	// RollbackRequested: what the run brought is to be rolled back. By, Message.
	RollbackRequested EventType = "RollbackRequested"
	// RunClosing: the run has failed or was aborted, and goes on with what runs
	// always. Message.
	RunClosing    EventType = "RunClosing"
	RunCompleted  EventType = "RunCompleted"  // Count of completed clusters
	RunFailed     EventType = "RunFailed"     // Message
	RunAborted    EventType = "RunAborted"    // By, Message
	RunSuperseded EventType = "RunSuperseded" // Message names the other run

	StageStarted   EventType = "StageStarted"   // Count of its clusters
	StageSkipped   EventType = "StageSkipped"   // no cluster was updated in it
	StageCompleted EventType = "StageCompleted" // Count of completed clusters

	// WaitStarted: a TimedWait or a ScheduledStart was reached. Group where it is
	// that of one, Until, Message "scheduled start" for the latter.
	WaitStarted EventType = "WaitStarted"
	// WaitEnded: Group and Message as before, By the identity that ended it before its time.
	WaitEnded EventType = "WaitEnded"

	// The events of approvals have Request, Attempt and Digest, that of the plan that the request is about;
	// those of a decision have By, the identity that decided, and Message, the beginning of its comment.

	ApprovalRequested EventType = "ApprovalRequested" // Until
	// ApprovalGiven: a decision was recorded and more are needed, or are recorded with
	// it.
	ApprovalGiven EventType = "ApprovalGiven"
	// ApprovalEarly: an identity approved for a point in time, and more is needed first: it is asked again,
	// last.
	ApprovalEarly    EventType = "ApprovalEarly"
	ApprovalAccepted EventType = "ApprovalAccepted"
	ApprovalRejected EventType = "ApprovalRejected"
	ApprovalExpired  EventType = "ApprovalExpired"

	// CheckMeasured: a measurement came to something else than the one before. CheckEnded: a check came to its Result. Both have
	// Check, Result, Value, Query as it was asked, Count of the measurements so far, Message, Attempt of the gate or the cluster.
	CheckMeasured EventType = "CheckMeasured"
	CheckEnded    EventType = "CheckEnded"

	// ClusterStarted: an attempt began, other than a retry. Trying again to
	// reach a cluster that is Pending is not a start. Attempt.
	ClusterStarted EventType = "ClusterStarted"
	// ClusterPending: the cluster yielded its slot, is outside its window, or is
	// Pending for another reason than before. Attempt that comes next, Message,
	// Until the next try. Of more than 8 clusters of a group that are outside
	// their windows at once it has no Cluster, and their Count; Message and Until
	// are those of the first window that opens.
	ClusterPending   EventType = "ClusterPending"
	ClusterApplied   EventType = "ClusterApplied"   // Attempt
	ClusterUnhealthy EventType = "ClusterUnhealthy" // Message; soaking starts again
	ClusterRetrying  EventType = "ClusterRetrying"  // Attempt, Message, Until
	ClusterCompleted EventType = "ClusterCompleted" // Attempt, Unchanged
	ClusterFailed    EventType = "ClusterFailed"    // Attempt, Message
	// ObjectsReleased: objects that were to go are given up and stay on the cluster, or will because nothing
	// proves that the placement created them. Attempt, Message, which names some of them and says why.
	ObjectsReleased EventType = "ObjectsReleased"
	// ObjectsAltered: objects are applied without a part that the cluster's API server does not take, as kubectl would
	// have applied them: see the type ClientSideApply of package fleet. Attempt, Message, which names objects and parts.
	ObjectsAltered EventType = "ObjectsAltered"
	// ClusterSkipped: Message. Of several clusters of a group at once it has
	// no Cluster, and Count of those that were not skipped before.
	ClusterSkipped EventType = "ClusterSkipped"
	ClusterRemoved EventType = "ClusterRemoved" // cleaned after it left

	// WindowsBypassed: clusters may start outside their windows. By, Until,
	// Message.
	WindowsBypassed EventType = "WindowsBypassed"
	// CommandAccepted: a command was accepted and nothing else shows it yet. Command, By,
	// Message says when it counts.
	CommandAccepted EventType = "CommandAccepted"
	// CommandRefused: a command did not fit the state. Command, By, Message.
	CommandRefused EventType = "CommandRefused"
)

// Event is something that happened, as a value. Fields that do not apply are
// zero and are left out of its JSON.
type Event struct {
	Time      time.Time `json:"time"`
	Type      EventType `json:"type"`
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
