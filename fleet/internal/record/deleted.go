package record

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/stages"
)

// Deleted is what is kept of a placement that was deleted.
type Deleted struct {
	Format int    `json:"format"`
	UID    string `json:"uid"`
	// Epoch is the last one that was used. A placement that is declared under the same name continues after
	// it, so that no ledger refuses it.
	Epoch int64 `json:"epoch"`
	// Report is nil once it was forgotten.
	Report *DeletionReport `json:"report,omitempty"`
	// Journal has one event, when everything is gone.
	Journal Journal `json:"journal,omitzero"`
}

// DeletionReport is how a deletion ended.
type DeletionReport struct {
	Owner    string         `json:"owner,omitempty"`
	By       string         `json:"by,omitempty"`
	End      lifecycle.End  `json:"end"`
	Run      string         `json:"run"`
	Since    stages.Instant `json:"since"`
	Ended    stages.Instant `json:"ended,omitempty"`
	Clusters int            `json:"clusters"`
	Done     int            `json:"done"`
	Left     []LeftCluster  `json:"left,omitempty"`
	Skipped  int            `json:"skipped,omitempty"`
	// Released are the clusters on which objects were released, with those and why: at most leftMost.
	Released []LeftCluster `json:"released,omitempty"`
}

// leftMost bounds how many clusters a report names.
const leftMost = 500

// Leave records the clusters on which something may be left, with the reasons.
func (r *DeletionReport) Leave(left map[string]string) {
	r.Skipped = len(left)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if len(r.Left) == leftMost {
			return
		}
		r.Left = append(r.Left, LeftCluster{name, left[name]})
	}
}

// Release records what was released on a cluster.
func (r *DeletionReport) Release(cluster, what string) {
	if len(r.Released) < leftMost {
		r.Released = append(r.Released, LeftCluster{cluster, what})
	}
}

// Summary says what was left, for an event.
func (r *DeletionReport) Summary() string {
	if r.Skipped == 0 {
		return ""
	}
	first := &r.Left[0]
	text := fmt.Sprintf("left on %s: %s", first.Name, first.Reason)
	if more := r.Skipped - 1; more > 0 {
		text += fmt.Sprintf("; and on %d more clusters", more)
	}
	return guard.Clip(text)
}

// LeftCluster is fleet.LeftCluster.
type LeftCluster struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}
