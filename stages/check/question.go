package check

import "time"

// Where identifies the place of a measurement: a cluster in flight, a gate, or the current
// stage of the run.
type Where struct {
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	// When is the side of a gate; empty for a check during a stage, and for a cluster.
	When string `json:"when,omitempty"`
	// Cluster is the measured cluster, Attempt the attempt of its update or of its gate.
	Cluster string `json:"cluster,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Name is the name of the check, Number the number of the measurement, from 1.
	Name   string `json:"name"`
	Number int    `json:"number"`
}

// Question is a measurement that is due. The driver resolves the query with the current labels
// of the cluster.
type Question struct {
	Where
	Check *Check
	// Window is the age of the measured state; older data must not be used.
	Window time.Duration
}

// Measured is the answer to a [Question].
type Measured struct {
	Where
	// Query is the resolved query.
	Query string
	Answer
	// At is when the provider was asked; zero means now.
	At time.Time
}
