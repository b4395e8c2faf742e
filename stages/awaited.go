package stages

import (
	"fmt"
	"strings"
	"time"
)

// RefusedError says that a command does not fit the state of a run. Carrying
// it out would change nothing but for an event of type [CommandRefused].
type RefusedError struct {
	// Verb is the refused command.
	Verb Verb
	// State is that of the run as [Derive] shows it.
	State State
	// Reason is a sentence without its point.
	Reason string
}

// Error names the command, the state and the reason. It names the state once if the reason has it.
func (e *RefusedError) Error() string {
	if strings.Contains(e.Reason, string(e.State)) {
		return fmt.Sprintf("command %s is refused: %s", e.Verb, e.Reason)
	}
	return fmt.Sprintf("command %s is refused, the run is %s: %s", e.Verb, e.State, e.Reason)
}

// Await is a kind of cause for which a run waits.
type Await string

// What a run may wait for.
const (
	AwaitStart       Await = "Start"       // a Start command
	AwaitRun         Await = "Run"         // another run to end
	AwaitTime        Await = "Time"        // a moment
	AwaitWindow      Await = "Window"      // windows of clusters to open
	AwaitDecision    Await = "Decision"    // a decision on a request
	AwaitCap         Await = "Cap"         // a cap that runs share to have room
	AwaitCheck       Await = "Check"       // measurements
	AwaitTimeout     Await = "Timeout"     // the end of the time that a stage or a group may take
	AwaitObservation Await = "Observation" // what a cluster in flight turns out to be
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
	// Waiting is what has to happen before the cluster moves on, where it is
	// not terminal.
	Waiting []Awaited `json:"waiting,omitempty"`
}
