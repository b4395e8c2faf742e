package stages

import "time"

// EventType is the kind of an [Event].
type EventType string

// The types of event. Package fleet emits the types marked (fleet), and step.Step the others. The
// comment of a type ends with the fields of [Event] that it sets.
const (
	// SnapshotTaken (fleet): a placement has a new snapshot. Index, Digest.
	SnapshotTaken EventType = "SnapshotTaken"
	// SelectionChanged (fleet): the selected clusters changed. Index, Digest, Count.
	SelectionChanged EventType = "SelectionChanged"
	// RunCreated (fleet): a run and its plan were recorded. Index, Digest of the plan,
	// Count of its clusters, By; for a rollback also Message.
	RunCreated EventType = "RunCreated"
	// RunQueued: the run waits for the run named in Message.
	RunQueued EventType = "RunQueued"
	// RunDeleted (fleet): the run was deleted, with its events.
	RunDeleted EventType = "RunDeleted"
	// DriftFound (fleet): a cluster has a new kind of drift. Count of its objects that
	// differ, Message.
	DriftFound EventType = "DriftFound"
	// DriftCorrected (fleet): the drift was corrected. Count, Message.
	DriftCorrected EventType = "DriftCorrected"
	// PlacementDeleting (fleet): the placement is being deleted. By, Message.
	PlacementDeleting EventType = "PlacementDeleting"
	// PlacementDeleted (fleet): nothing of the placement is stored any more. By, Count of
	// the cleaned clusters, Message lists the objects left on clusters.
	PlacementDeleted EventType = "PlacementDeleted"
	// RollbackRefused (fleet): the run is not rolled back. Message.
	RollbackRefused EventType = "RollbackRefused"
	// SnapshotIrreversible (fleet): no rollback may go past a snapshot any more. Index, By.
	SnapshotIrreversible EventType = "SnapshotIrreversible"
	// SnapshotReversible (fleet): the irreversible mark of a snapshot was removed. Index,
	// By.
	SnapshotReversible EventType = "SnapshotReversible"
	// RunTaken (fleet): an engine took the run. By the name of the engine, Epoch.
	RunTaken EventType = "RunTaken"

	RunStarted  EventType = "RunStarted"  // Index, Digest of the plan
	RunStopping EventType = "RunStopping" // By, Message
	RunStopped  EventType = "RunStopped"  // Message
	RunResumed  EventType = "RunResumed"  // By
	// RunRetried: failed or skipped clusters of the current stage will be retried. By,
	// Count, Message.
	RunRetried EventType = "RunRetried"
	// RollbackRequested: a rollback of the run was requested. By, Message.
	RollbackRequested EventType = "RollbackRequested"
	// RunClosing: the run has failed or was aborted, and still runs its stages and groups
	// with [Flow].Always. Message.
	RunClosing    EventType = "RunClosing"
	RunCompleted  EventType = "RunCompleted"  // Count of completed clusters
	RunFailed     EventType = "RunFailed"     // Message
	RunAborted    EventType = "RunAborted"    // By, Message
	RunSuperseded EventType = "RunSuperseded" // Message names the other run

	StageStarted   EventType = "StageStarted"   // Count of its clusters
	StageSkipped   EventType = "StageSkipped"   // no cluster was updated in it
	StageCompleted EventType = "StageCompleted" // Count of completed clusters

	// WaitStarted: a TimedWait or a ScheduledStart was reached. Group if the gate is of a
	// group, Until, Message "scheduled start" for a ScheduledStart.
	WaitStarted EventType = "WaitStarted"
	// WaitEnded: Group and Message as in WaitStarted, By the identity that ended the wait
	// early.
	WaitEnded EventType = "WaitEnded"

	// The events of approvals have Request, Attempt and Digest, the digest of the plan of
	// the request. The events of decisions also have By, the identity that decided, and
	// Message, the beginning of its comment.

	ApprovalRequested EventType = "ApprovalRequested" // Until
	// ApprovalGiven: a decision was recorded, and more are needed or recorded with it.
	ApprovalGiven EventType = "ApprovalGiven"
	// ApprovalEarly: an identity approved for a point in time while other approvals are
	// missing. It is asked again, last.
	ApprovalEarly    EventType = "ApprovalEarly"
	ApprovalAccepted EventType = "ApprovalAccepted"
	ApprovalRejected EventType = "ApprovalRejected"
	ApprovalExpired  EventType = "ApprovalExpired"

	// CheckMeasured: the result of a measurement differs from the one before. CheckEnded: a
	// check ended with its Result. Both have Check, Result, Value, the resolved Query,
	// Count of the measurements so far, Message, and Attempt of the gate or the cluster.
	CheckMeasured EventType = "CheckMeasured"
	CheckEnded    EventType = "CheckEnded"

	// ClusterStarted: an attempt began that is not a retry. A new try to reach a Pending
	// cluster is not a start. Attempt.
	ClusterStarted EventType = "ClusterStarted"
	// ClusterPending: the cluster yielded its slot, is outside its window, or is Pending
	// for a new reason. Attempt that comes next, Message, Until the next try. If more than
	// 8 clusters of a group are outside their windows at once, one event has their Count
	// and no Cluster; its Message and Until are from the first window that opens.
	ClusterPending   EventType = "ClusterPending"
	ClusterApplied   EventType = "ClusterApplied"   // Attempt
	ClusterUnhealthy EventType = "ClusterUnhealthy" // Message; soaking starts again
	ClusterRetrying  EventType = "ClusterRetrying"  // Attempt, Message, Until
	ClusterCompleted EventType = "ClusterCompleted" // Attempt, Unchanged
	ClusterFailed    EventType = "ClusterFailed"    // Attempt, Message
	// ObjectsReleased: objects are or will be left on the cluster instead of deleted, for
	// example because nothing proves that the placement created them. Attempt, Message,
	// which names some of them and the reason.
	ObjectsReleased EventType = "ObjectsReleased"
	// ObjectsAltered: objects are applied without a part that the API server of the cluster
	// rejects, as kubectl would apply them: see the type ClientSideApply of package fleet.
	// Attempt, Message, which names objects and parts.
	ObjectsAltered EventType = "ObjectsAltered"
	// ClusterSkipped: Message. If several clusters of a group are skipped at once, the
	// event has no Cluster, and Count is the number of clusters that were not skipped
	// before.
	ClusterSkipped EventType = "ClusterSkipped"
	ClusterRemoved EventType = "ClusterRemoved" // cleaned after it left

	// WindowsBypassed: clusters may start outside their windows. By, Until,
	// Message.
	WindowsBypassed EventType = "WindowsBypassed"
	// CommandAccepted: a command was accepted and has no visible effect yet. Command, By,
	// Message with the time or the condition of its effect.
	CommandAccepted EventType = "CommandAccepted"
	// CommandRefused: a command did not fit the state. Command, By, Message.
	CommandRefused EventType = "CommandRefused"
)

// Event is a record of something that happened. Fields that do not apply are zero and absent
// from its JSON.
type Event struct {
	Time      time.Time `json:"time"`
	Type      EventType `json:"type"`
	Placement string    `json:"placement,omitempty"`
	Run       string    `json:"run,omitempty"`
	Stage     string    `json:"stage,omitempty"`
	Group     string    `json:"group,omitempty"`
	Cluster   string    `json:"cluster,omitempty"`
	// Index is the index of a snapshot or a selection.
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
	// Check, Result, Value and Query describe a measurement.
	Check  string `json:"check,omitempty"`
	Result string `json:"result,omitempty"`
	Value  string `json:"value,omitempty"`
	Query  string `json:"query,omitempty"`
}
