package placement

import (
	"slices"
	"strings"
)

// Decide is [Resolve] for a placement that may have clusters already, for all types of policies.
// It returns a verdict for every cluster of the inventory and every cluster that the policy
// names, by name.
//
// A placed cluster stays despite new taints or bad health, unless it is in [Previous].HeldOut, is
// leaving the fleet or no longer matches the policy. A PickAll or PickFixed policy matches placed
// clusters again with each selection, a PickN policy does so only if an edit has changed more than
// its number of clusters. A PickFixed policy picks its named clusters despite taints, if the
// inventory has them and they are healthy; without names it picks nothing.
//
// A PickN policy keeps the clusters that stay and picks one more at a time, each with the best
// [Score], until it has enough. If there are too many, it drops one at a time: first clusters
// that were never updated, then by the lowest score, and then by name.
func Decide(p Policy, clusters []Cluster, previous Previous) (Selection, []Evaluation, error) {
	sorted, digest, err := p.check(clusters)
	if err != nil {
		return Selection{}, nil, err
	}
	candidates, err := p.candidates(sorted, previous, previous.PolicyDigest != digest)
	if err != nil {
		return Selection{}, nil, err
	}
	if p.Type == PickN {
		p.pickN(candidates)
	}
	names := make([]string, 0, len(candidates))
	verdicts := make([]Evaluation, len(candidates))
	for i, c := range candidates {
		verdicts[i] = Evaluation{Cluster: c.Name, Picked: c.picked, Kept: c.kept, Score: c.score, Reason: c.reason}
		if c.picked {
			names = append(names, c.Name)
		}
	}
	if missing := p.missing(sorted); len(missing) > 0 {
		verdicts = append(verdicts, missing...)
		slices.SortFunc(verdicts, func(a, b Evaluation) int { return strings.Compare(a.Cluster, b.Cluster) })
	}
	return newSelection(digest, names), verdicts, nil
}
