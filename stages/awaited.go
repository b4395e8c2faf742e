package stages

import (
	"fmt"
	"strings"
	"time"
)

// RefusedError reports that a command does not fit the state of a run. Such a command would
// only cause an event of type [CommandRefused].
type RefusedError struct {
	// Verb is the refused command.
	Verb Verb
	// State is the state of the run, as in its [Outline].
	State State
	// Reason is a sentence without its full stop.
	Reason string
}

// Error names the command, the state and the reason. If the reason names the state already, Error
// does not repeat it. The error of a [RequestRollback] follows the name of the run in a sentence.
func (e *RefusedError) Error() string {
	if e.Verb == RequestRollback {
		return "cannot be rolled back: " + e.Reason
	}
	if strings.Contains(e.Reason, string(e.State)) {
		return fmt.Sprintf("command %s is refused: %s", e.Verb, e.Reason)
	}
	return fmt.Sprintf("command %s is refused, the run is %s: %s", e.Verb, e.State, e.Reason)
}

// Await is the kind of cause for which a run waits.
type Await string

// The values of Await.
const (
	AwaitStart       Await = "Start"       // a Start command
	AwaitRun         Await = "Run"         // the end of another run
	AwaitTime        Await = "Time"        // a moment
	AwaitWindow      Await = "Window"      // the opening of windows of clusters
	AwaitDecision    Await = "Decision"    // a decision on a request
	AwaitCap         Await = "Cap"         // room under a cap that runs share
	AwaitCheck       Await = "Check"       // measurements
	AwaitTimeout     Await = "Timeout"     // the end of the time that a stage or a group may take
	AwaitObservation Await = "Observation" // the result of a cluster in flight
)

// Awaited is a cause for which a run waits.
type Awaited struct {
	Kind Await `json:"kind"`
	// Name is the run, the stage, the group as <stage>/<group>, the request, the cap
	// or the cluster.
	Name string `json:"name,omitempty"`
	// Until is when the wait ends by itself; zero if it does not.
	Until   time.Time `json:"until,omitzero"`
	Message string    `json:"message,omitempty"`
}

// Explanation is the state of a cluster in a run, with the reason.
type Explanation struct {
	Run     string `json:"run"`
	Cluster string `json:"cluster"`
	Stage   string `json:"stage"`
	Group   string `json:"group,omitempty"`
	State   State  `json:"state"`
	Attempt int    `json:"attempt,omitempty"`
	// Reason is a sentence.
	Reason string `json:"reason"`
	// Waiting lists the conditions for further progress of the cluster, if it is not
	// terminal.
	Waiting []Awaited `json:"waiting,omitempty"`
}
