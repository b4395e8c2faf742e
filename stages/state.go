package stages

import (
	"strconv"

	"github.com/slipway-dev/slipway/approval"
)

// State is the state of a run, a stage or a cluster.
type State string

// The states. A run is never Skipped; clusters and stages are never Superseded.
const (
	NotStarted State = "NotStarted"
	// Pending: a run waits for another run, or a gate for its condition. A cluster is Pending if
	// it is outside its window, if it could not be reached before anything was sent to it, or if
	// it waits for a retry.
	Pending   State = "Pending"
	Running   State = "Running"
	Stopping  State = "Stopping"
	Stopped   State = "Stopped"
	Skipped   State = "Skipped"
	Failed    State = "Failed"
	Completed State = "Completed"
	// Aborted and Superseded runs are never resumed.
	Aborted    State = "Aborted"
	Superseded State = "Superseded"
)

// ClusterPhase is the phase of a cluster in flight.
type ClusterPhase uint8

// The phases of a cluster in flight.
const (
	// Applying: the update is not carried out yet.
	Applying ClusterPhase = iota + 1
	// Settling: the update was carried out; the cluster is not healthy yet.
	Settling
	// Soaking: healthy, and must remain healthy until the soak ends.
	Soaking
	// BackingOff: an attempt failed; the next starts when the backoff ends.
	BackingOff
	// Measuring: healthy, and measured by the checks of its stage.
	Measuring
)

// String returns the name of the phase.
func (p ClusterPhase) String() string {
	names := [...]string{Applying: "Applying", Settling: "Settling", Soaking: "Soaking", BackingOff: "BackingOff", Measuring: "Measuring"}
	if int(p) >= len(names) {
		return "ClusterPhase(" + strconv.Itoa(int(p)) + ")"
	}
	return names[p]
}

// RollbackRequest is the request to roll a run back. Such a run ends as Failed, in every
// profile, and is never started again; its driver then plans the rollback with
// step.RollBack. A run that is superseded or aborted before its end is not rolled back.
type RollbackRequest struct {
	Cause RollbackCause `json:"cause"`
	// Run is the requested name of the run that does the rollback; if it is empty, the
	// planner of that run chooses a name.
	Run string `json:"run,omitempty"`
	// By is the identity that requested it; for other causes than OnCommand, the starter of
	// the run.
	By approval.Identity `json:"by,omitzero"`
	// Message explains the cause, at most 256 bytes.
	Message string `json:"message,omitempty"`
}

// Sentence returns the end of a sentence about a cluster that the run may have changed.
func (u *RollbackRequest) Sentence() string {
	if u == nil {
		return ""
	}
	return "; the run is rolled back: " + u.Message
}
