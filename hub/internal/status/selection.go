package status

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Selection is a decision with the type of its policy.
type Selection struct {
	fleet.Resolution
	// Type is the type of the policy.
	Type placement.Type
}

// Lasting returns the verdicts to show. For a cluster that the decision kept and that before has
// as picked, it returns the earlier verdict with its score and reason.
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

// verdictOf returns the verdict on a cluster, or one with only the name if there is none.
func (r *Selection) verdictOf(cluster string) placement.Evaluation {
	i, ok := slices.BinarySearchFunc(r.Evaluations, cluster, func(v placement.Evaluation, name string) int { return strings.Compare(v.Cluster, name) })
	if !ok {
		return placement.Evaluation{Cluster: cluster}
	}
	return r.Evaluations[i]
}

// targets returns at most the given number of clusters to show: first the picked ones, then the
// others.
func (r *Selection) targets(most int) []v1beta1.ClusterDecision {
	var out []v1beta1.ClusterDecision
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

func (r *Selection) target(v placement.Evaluation, picked bool) v1beta1.ClusterDecision {
	t := v1beta1.ClusterDecision{ClusterName: v.Cluster, Selected: picked, Reason: reasonOf(v, picked)}
	if r.Type == placement.PickN {
		t.ClusterScore = &v1beta1.ClusterScore{AffinityScore: new(int32(v.Score.Affinity)), TopologySpreadScore: new(int32(v.Score.Spread))}
	}
	return t
}

// reasonOf returns the reason why a cluster was picked or not. For a picked cluster, KubeFleet's
// words precede the reason of the decision.
func reasonOf(v placement.Evaluation, picked bool) string {
	switch {
	case !picked:
		return v.Reason
	case v.Picked:
		return pickedReason + ": " + v.Reason
	default: // the evaluation is newer than the selection
		return pickedReason
	}
}

const pickedReason = "picked by scheduling policy"

// ShownDigest returns a digest that differs for decisions that are shown differently. It ignores
// scores, because they change with every property of a cluster.
func (r *Selection) ShownDigest() string {
	list := r.targets(ShownTargets)
	for i := range list {
		list[i].ClusterScore = nil
	}
	b, err := json.Marshal([]any{r.Digest, r.Shortfall, list})
	if err != nil {
		return r.Digest
	}
	return snapshot.Digest(b)
}
