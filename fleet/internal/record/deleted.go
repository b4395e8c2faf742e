package record

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/stages"
)

// Deleted is the record that remains of a deleted placement.
type Deleted struct {
	Format int    `json:"format"`
	UID    string `json:"uid"`
	// Epoch is the last used epoch. A placement that is declared under the same name continues
	// after it, so that no ledger refuses it.
	Epoch int64 `json:"epoch"`
	// Report is nil after it was forgotten.
	Report *DeletionReport `json:"report,omitempty"`
	// Journal has one event, which is added when all data is deleted.
	Journal Journal `json:"journal,omitzero"`
}

// DeletionReport is the result of a deletion.
type DeletionReport struct {
	Owner           string             `json:"owner,omitempty"`
	By              string             `json:"by,omitempty"`
	End             lifecycle.End      `json:"end"`
	Run             string             `json:"run"`
	Since           stages.Instant     `json:"since"`
	Ended           stages.Instant     `json:"ended,omitempty"`
	Clusters        int                `json:"clusters"`
	Done            int                `json:"done"`
	SkippedClusters []UncleanedCluster `json:"skippedClusters,omitempty"`
	Skipped         int                `json:"skipped,omitempty"`
	// Released are the clusters with released objects; each Reason lists the objects and why they
	// were released. At most clustersMost.
	Released []UncleanedCluster `json:"released,omitempty"`
}

// clustersMost is the maximum number of clusters in each list of a report.
const clustersMost = 500

// Skip records the skipped clusters, which may have objects left, with the reasons.
func (r *DeletionReport) Skip(clusters map[string]string) {
	r.Skipped = len(clusters)
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if len(r.SkippedClusters) == clustersMost {
			return
		}
		r.SkippedClusters = append(r.SkippedClusters, UncleanedCluster{name, clusters[name]})
	}
}

// Release records the released objects of a cluster.
func (r *DeletionReport) Release(cluster, what string) {
	if len(r.Released) < clustersMost {
		r.Released = append(r.Released, UncleanedCluster{cluster, what})
	}
}

// Summary returns a text for an event about the clusters with objects left, or "".
func (r *DeletionReport) Summary() string {
	if r.Skipped == 0 {
		return ""
	}
	first := &r.SkippedClusters[0]
	text := fmt.Sprintf("left on %s: %s", first.Name, first.Reason)
	if more := r.Skipped - 1; more > 0 {
		text += fmt.Sprintf("; and on %d more clusters", more)
	}
	return guard.Clip(text)
}

// UncleanedCluster is fleet.UncleanedCluster.
type UncleanedCluster struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}
