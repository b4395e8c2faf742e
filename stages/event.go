package stages

import "time"

// EventType says what happened.
type EventType string

// The types of event. All of the engine's are here; those marked (fleet) are
// emitted by package fleet, the others by [Step].
const (
	// SnapshotTaken (fleet): a placement has a new snapshot. Index, Digest.
	SnapshotTaken EventType = "SnapshotTaken"
	// DecisionTaken (fleet): the picked clusters changed. Index, Digest, Count.
	DecisionTaken EventType = "DecisionTaken"
	// RunCreated (fleet): a run and its plan were recorded. Index, Digest of
	// the plan, Count of its clusters, By; of one that takes back what a run brought,
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
	// RollbackRefused (fleet): what the run brought is not taken back. Message.
	RollbackRefused EventType = "RollbackRefused"
	// SnapshotIrreversible (fleet): nothing is taken back past a snapshot. Index, By.
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
	// RollbackRequested: what the run brought is to be taken back. By, Message.
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
	// WaitEnded: Group and Message as before, By who ended it before its time.
	WaitEnded EventType = "WaitEnded"

	// The events of approvals have Request, Attempt and Digest, that of the plan
	// that the request is about; those of a decision have By, who decided, and
	// Message, the beginning of their comment.

	ApprovalRequested EventType = "ApprovalRequested" // Until
	// ApprovalGiven: a decision was recorded and more are needed.
	ApprovalGiven    EventType = "ApprovalGiven"
	ApprovalAccepted EventType = "ApprovalAccepted"
	ApprovalRejected EventType = "ApprovalRejected"
	ApprovalExpired  EventType = "ApprovalExpired"

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
	// ClusterSkipped: Message. Of several clusters of a group at once it has
	// no Cluster, and Count of those that were not skipped before.
	ClusterSkipped EventType = "ClusterSkipped"
	ClusterRemoved EventType = "ClusterRemoved" // cleaned after it left

	// WindowsBypassed: clusters may start outside their windows. By, Until,
	// Message.
	WindowsBypassed EventType = "WindowsBypassed"
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
	// Index is that of a snapshot or a decision.
	Index   *int   `json:"index,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Count   int    `json:"count,omitempty"`
	Epoch   int64  `json:"epoch,omitempty"`
	Request string `json:"request,omitempty"`
	Command string `json:"command,omitempty"`
	By      string `json:"by,omitempty"`
	// Unchanged tells that the cluster had the revision before the run.
	Unchanged bool      `json:"unchanged,omitempty"`
	Until     time.Time `json:"until,omitzero"`
	Message   string    `json:"message,omitempty"`
}
