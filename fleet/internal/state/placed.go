package state

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// PlacedCluster is what a cluster has of a placement, by the records.
type PlacedCluster struct {
	Name string `json:"name"`
	// UID is the cluster's as the plan had it that brought what it has; empty where
	// that is forgotten.
	UID string `json:"uid,omitempty"`
	// Index is that of the snapshot which the cluster was proven to have last, -1
	// for none. Revision is the digest of what it got of that, after overrides, and
	// Since is when the stage ended in which a run last proved it; Since is zero
	// where that run is forgotten, and while the stage goes on.
	Index    int       `json:"index"`
	Revision string    `json:"revision,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	// Tried is the index that a run last tried to bring to the cluster, which may
	// have got there in part; it is Index where that was proven.
	Tried int `json:"tried"`
	// Policy is the index of the selection, plus one, of the run that proved it last, or that is under way and has come
	// to it; 0 where that is not known. A selection by another policy has another index.
	Policy int `json:"policy,omitempty"`
	// Run is the run that is under way and has the cluster in its plan, and State
	// what the cluster has come to in it; empty for none.
	Run   string       `json:"run,omitempty"`
	State stages.State `json:"state,omitempty"`
}
