package stages

import (
	"time"

	"github.com/slipway-dev/slipway/approval"
)

// Outline is the state of a run for people.
type Outline struct {
	Run    State          `json:"run"`
	Stages []StageOutline `json:"stages"`
}

// StageOutline is the state of a stage for people.
type StageOutline struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Started is when its first cluster could start, Ended when it ended.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Groups has at least one element; a stage without groups has one group without a name.
	Groups []GroupOutline `json:"groups"`
	Gates  []GateOutline  `json:"gates,omitempty"`
	// Checks are the states of the checks that are measured while the stage is in progress.
	Checks []CheckRun `json:"checks,omitempty"`
}

// GroupOutline is the state of a group.
type GroupOutline struct {
	Name  string `json:"name,omitempty"`
	State State  `json:"state"`
	// Clusters is the number of clusters. The clusters counted in no field below have not
	// started or wait to be started.
	Clusters  int           `json:"clusters"`
	InFlight  int           `json:"inFlight,omitempty"`
	Completed int           `json:"completed,omitempty"`
	Failed    int           `json:"failed,omitempty"`
	Skipped   int           `json:"skipped,omitempty"`
	Gates     []GateOutline `json:"gates,omitempty"`
}

// GateOutline is the state of a task of a stage or a group: NotStarted before the run has
// reached it, then Pending, Completed, Skipped or, if it was rejected, Failed.
type GateOutline struct {
	When  approval.When `json:"when"`
	Type  TaskType      `json:"type"`
	State State         `json:"state"`
	// Until is when it ends by itself, or its request expires.
	Until time.Time `json:"until,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// By is the identity that ended a ScheduledStart before its time.
	By string `json:"by,omitempty"`
	// Checks are the states of the checks of a CheckTask.
	Checks []CheckRun `json:"checks,omitempty"`
}

// ClusterOutline is the place of a cluster in a plan and its state in a run.
type ClusterOutline struct {
	Name  string `json:"name"`
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	State State  `json:"state"`
	// Phase is the name of the phase of a cluster in flight, and Since the time when it
	// started.
	Phase string    `json:"phase,omitempty"`
	Since time.Time `json:"since,omitzero"`
	// Message explains the state: the condition that a cluster in flight waits for, the
	// last failure of a cluster that waits for a retry, or the reason of a failed or
	// skipped cluster.
	Message string `json:"message,omitempty"`
}
