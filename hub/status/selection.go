package status

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Selection is a decision as it is shown.
type Selection struct {
	fleet.Resolution
	// Type is how the policy picks.
	Type placement.Type
}

// Lasting are verdicts as they are shown: a cluster that stays keeps the score
// and the reason with which it was picked, as far as before has them.
func Lasting(before, now []placement.Evaluation) []placement.Evaluation {
	was := make(map[string]placement.Evaluation, len(before))
	for _, v := range before {
		was[v.Cluster] = v
	}
	out := slices.Clone(now)
	for i, v := range out {
		if old, ok := was[v.Cluster]; ok && old.Picked && v.Kept {
			out[i] = old
		}
	}
	return out
}

// verdictOf is the verdict on a cluster, the zero value where there is none.
func (r *Selection) verdictOf(cluster string) placement.Evaluation {
	i, ok := slices.BinarySearchFunc(r.Evaluations, cluster, func(v placement.Evaluation, name string) int { return strings.Compare(v.Cluster, name) })
	if !ok {
		return placement.Evaluation{Cluster: cluster}
	}
	return r.Evaluations[i]
}

// targets are the clusters that are shown of a decision: those that were picked,
// then those that were not, at most so many.
func (r *Selection) targets(most int) []targetCluster {
	var out []targetCluster
	for _, name := range r.Clusters[:min(len(r.Clusters), most)] {
		out = append(out, r.target(r.verdictOf(name), true))
	}
	for _, v := range r.Evaluations {
		if len(out) < most && !v.Picked {
			out = append(out, r.target(v, false))
		}
	}
	return out
}

func (r *Selection) target(v placement.Evaluation, picked bool) targetCluster {
	t := targetCluster{Name: v.Cluster, Selected: picked, Reason: reasonOf(v, picked)}
	if r.Type == placement.PickN {
		t.Score = &clusterScore{Affinity: v.Score.Affinity, Spread: v.Score.Spread}
	}
	return t
}

// reasonOf is why a cluster was picked or not, in KubeFleet's words and then in
// the decision's.
func reasonOf(v placement.Evaluation, picked bool) string {
	switch {
	case !picked:
		return v.Reason
	case v.Picked:
		return pickedReason + ": " + v.Reason
	default: // the evaluation is of a later moment than the selection
		return pickedReason
	}
}

const pickedReason = "picked by scheduling policy"

// ShownDigest tells decisions apart that are shown differently, but for the scores,
// which change with every property of a cluster.
func (r *Selection) ShownDigest() string {
	list := r.targets(ShownTargets)
	for i := range list {
		list[i].Score = nil
	}
	b, err := json.Marshal([]any{r.Digest, r.Shortfall, list})
	if err != nil {
		return r.Digest
	}
	return snapshot.Digest(b)
}
