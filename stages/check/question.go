package check

import "time"

// Where says of what a measurement is: of a cluster in flight, of a gate, or of the stage that the run is in.
type Where struct {
	Stage string `json:"stage"`
	Group string `json:"group,omitempty"`
	// When is the side of a gate; empty for a stage that goes on, and for a cluster.
	When string `json:"when,omitempty"`
	// Cluster is the cluster that is measured, Attempt that of its update, or of its gate.
	Cluster string `json:"cluster,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Name is that of the check, Number the number of the measurement, from 1.
	Name   string `json:"name"`
	Number int    `json:"number"`
}

// Question is a measurement that is due. The driver resolves the query, with the labels that the cluster has now.
type Question struct {
	Where
	Check *Check
	// Window is for how long what is measured has been so: what is older does not count.
	Window time.Duration
}

// Measured is the answer to a [Question].
type Measured struct {
	Where
	// Query is what was asked, as it was resolved.
	Query string
	Answer
	// At is when the provider was asked; zero means now.
	At time.Time
}
