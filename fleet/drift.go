package fleet

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/stages"
)

// DriftOptions narrow a drift report. The zero value covers every cluster of the inventory that the
// placement picks or was placed on before.
type DriftOptions struct {
	// Clusters restricts the report to these clusters; empty means all. It is an error to name a
	// cluster that the inventory does not have, or that the placement neither picks nor was placed on
	// before.
	Clusters []string `json:"clusters,omitempty"`
	// Index selects a snapshot to compare with, instead of the last target of each cluster.
	Index *int `json:"index,omitempty"`
	// Comparison overrides the comparison option of the placement.
	Comparison drift.Comparison `json:"comparison,omitempty"`
	// Recorded returns the recorded drift instead, without asking a cluster. It cannot be combined
	// with Index and Comparison.
	Recorded bool `json:"recorded,omitempty"`
}

// Drift compares the clusters of the placement with their desired state: the ledger of each
// cluster, or, if the placement only reports, the latest snapshot. It only reads, on the clusters
// and in the store, and may be called at any time.
//
// It yields every cluster once, as soon as it has been compared; a few are compared at the same
// time. A cluster that cannot be read is yielded with its problems. An object of the recorded drift
// keeps its FirstObserved. An error concerns the placement as a whole, and nothing is yielded after
// it. [GroupDrift] groups clusters that differ in the same way.
//
// With [DriftOptions].Recorded it yields the recorded drift instead, ascending by cluster: the
// clusters that differed or could not be compared when a run or the drift reconciler of
// [Engine.Start] last compared them. It reads the store only. Then Observed of a cluster is when
// its recorded drift last changed; in the engine that reconciles the placement, it is when the
// cluster was last compared.
func (h PlacementHandle) Drift(ctx context.Context, o DriftOptions) iter.Seq2[drift.ClusterReport, error] {
	if o.Recorded {
		return h.recordedDrift(ctx, o)
	}
	return h.e.drifts.Drift(ctx, h.name, driftwatch.Query{Clusters: o.Clusters, Index: o.Index, Comparison: o.Comparison})
}

func (h PlacementHandle) recordedDrift(ctx context.Context, o DriftOptions) iter.Seq2[drift.ClusterReport, error] {
	return func(yield func(drift.ClusterReport, error) bool) {
		if o.Index != nil || o.Comparison != "" {
			yield(drift.ClusterReport{Placement: h.name}, fmt.Errorf(
				"drift of placement %s: the recorded drift has one index and comparison: leave both out, or ask the clusters: %w", h.name, backend.ErrPermanent))
			return
		}
		all, err := h.e.drifts.Drifted(ctx, h.name)
		if err != nil {
			yield(drift.ClusterReport{Placement: h.name}, err)
			return
		}
		for _, c := range all {
			if (len(o.Clusters) == 0 || slices.Contains(o.Clusters, c.Cluster)) && !yield(c, nil) {
				return
			}
		}
	}
}

// DriftGroup are clusters that differ in the same way.
type DriftGroup struct {
	Fingerprint string `json:"fingerprint"`
	// Clusters are the names of the clusters, ascending.
	Clusters []string `json:"clusters"`
	// Objects are the objects of the first cluster; times, generations and field managers may
	// differ on the others.
	Objects []drift.ObjectReport `json:"objects"`
}

// GroupDrift groups clusters that differ in the same way, so that one edit on a thousand clusters
// is one group. The largest group comes first; clusters without differences are in no group.
func GroupDrift(all []drift.ClusterReport) []DriftGroup {
	by := map[string]*DriftGroup{}
	for _, c := range slices.SortedFunc(slices.Values(all), func(a, b drift.ClusterReport) int { return cmp.Compare(a.Cluster, b.Cluster) }) {
		f := c.Fingerprint()
		if f == "" {
			continue
		}
		if by[f] == nil {
			by[f] = &DriftGroup{Fingerprint: f, Objects: c.Objects}
		}
		by[f].Clusters = append(by[f].Clusters, c.Cluster)
	}
	out := make([]DriftGroup, 0, len(by))
	for _, g := range by {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b DriftGroup) int {
		return cmp.Or(cmp.Compare(len(b.Clusters), len(a.Clusters)), cmp.Compare(a.Clusters[0], b.Clusters[0]))
	})
	return out
}

// NoDriftGroup is the group for approvals by the engine itself: it approves that the clusters of a
// stage have not drifted. If the policy of a gate requires one approval of this group, alone or in
// addition to people, the gate passes only if no cluster has drifted. The engine's approval holds
// only at a point in time, see [approval.Decision]: the engine compares the clusters last, once all
// others have approved and the waits beside the gate have ended. Only the engine can approve in
// this group.
const NoDriftGroup = planning.NoDriftGroup

// NoDrift returns a gate that passes once no cluster of the stage or group differs from its ledger,
// the record of the objects that the placement applied there. Until then the run waits, and the
// engine compares the clusters again. A run with such a gate is refused if the host has its own
// Updater.
func NoDrift() stages.Task {
	return stages.Task{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: planning.NoDriftGroup, Count: 1}}}}
}
