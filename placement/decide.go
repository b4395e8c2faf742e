package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Previous is the last selection of a placement. The zero value stands for a new placement.
type Previous struct {
	// PolicyDigest is the digest of the policy that picked the clusters.
	PolicyDigest string
	// Clusters has the names of the placed clusters; the value reports whether the cluster was ever
	// updated.
	Clusters map[string]bool
	// HeldOut maps clusters that no policy may pick to the reason.
	HeldOut map[string]string
	// Namespace is the namespace that the placed objects need and do not bring; empty means none.
	// Unless the policy is PickFixed, a cluster that is known not to have the namespace is not
	// picked anew. Placed clusters stay.
	Namespace string
}

// Evaluation explains a selection for one cluster.
type Evaluation struct {
	// Cluster is the name of a cluster of the inventory, or a name in a PickFixed policy that the
	// inventory does not have.
	Cluster string `json:"cluster"`
	// Picked reports whether the selection has the cluster.
	Picked bool `json:"picked"`
	// Score is the rank of a cluster under a PickN policy.
	Score Score `json:"score"`
	// Kept reports whether the cluster is picked because it has the placement already, and nothing
	// else would keep it from being picked.
	Kept bool `json:"kept,omitempty"`
	// Reason is the text for people that says why the cluster is picked or not.
	Reason string `json:"reason"`
}

// Score ranks clusters: the greater Spread is better, then the greater Affinity, then the name
// that is later in the alphabet.
type Score struct {
	// Spread is 0 if the clusters are spread evenly. Each constraint subtracts 1 for every cluster
	// that the domain has more than the emptiest one, and 1000 if it does not hold. It is the score
	// when the cluster was picked or dropped, otherwise the final score.
	Spread int `json:"spread"`
	// Affinity is the sum of the cluster's points from all preferences.
	Affinity int `json:"affinity"`
}

// Decide is [Resolve] for a placement that may have clusters already, for all types of policies.
// It returns a verdict for every cluster of the inventory and every cluster that the policy
// names, by name.
//
// A placed cluster stays despite new taints or bad health, unless it is held out, is leaving or
// no longer matches the policy. A PickAll or PickFixed policy matches placed clusters again with
// each selection, a PickN policy only if an edit changed more than its number. A PickFixed policy
// picks its named clusters despite taints, if the inventory has them and they are healthy;
// without names it picks nothing.
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

// candidate is a cluster with its state in a selection.
type candidate struct {
	*Cluster
	score Score
	// stays reports whether the cluster is placed and may stay, updated whether it was ever updated.
	stays, updated bool
	// bar says why the cluster is not picked again; empty if it may be.
	bar string
	// domains has the number of the cluster's domain in each spread constraint.
	domains []int
	picked  bool
	kept    bool
	reason  string
}

// candidates evaluates every cluster by itself. That decides a PickAll or PickFixed policy; a
// PickN policy has picked nothing yet.
func (p Policy) candidates(sorted []*Cluster, previous Previous, edited bool) ([]*candidate, error) {
	match, err := p.terms()
	if err != nil {
		return nil, fmt.Errorf("placement policy: %w", err)
	}
	affinities, err := p.affinities(sorted)
	if err != nil {
		return nil, fmt.Errorf("placement policy: %w", err)
	}
	x := matcher{Policy: p, names: slices.Sorted(slices.Values(p.ClusterNames)), match: match, edited: edited, namespace: previous.Namespace}
	out := make([]*candidate, len(sorted))
	for i, cluster := range sorted {
		out[i] = x.candidate(cluster, previous)
		out[i].score.Affinity = affinities[i]
	}
	return out, nil
}

// matcher decides about a cluster by itself, without regard to the others.
type matcher struct {
	Policy
	// names has the names of a PickFixed policy, ascending.
	names  []string
	match  func(*Cluster) bool
	edited bool
	// namespace is [Previous.Namespace].
	namespace string
}

func (x *matcher) candidate(cluster *Cluster, previous Previous) *candidate {
	updated, placed := previous.Clusters[cluster.Name]
	expelled := cmp.Or(previous.HeldOut[cluster.Name], x.expels(cluster))
	c := &candidate{Cluster: cluster, updated: updated, stays: placed && expelled == ""}
	c.bar = cmp.Or(expelled, x.hinders(cluster))
	switch {
	case c.stays:
		c.pick("it is already placed")
		if c.kept = c.bar == ""; !c.kept {
			c.reason += ", though " + c.bar
		}
	case c.bar != "":
		c.drop("%s", c.bar)
	case x.Type == PickFixed:
		c.pick("the policy names it")
	case x.Type != PickN:
		c.pick("the policy picks all that match, and it does")
	}
	return c
}

// expels returns why a cluster must not stay, or "" if it may.
func (x *matcher) expels(c *Cluster) string {
	switch {
	case c.Leaving:
		return "it is leaving the fleet"
	case x.Type == PickFixed:
		if _, named := slices.BinarySearch(x.names, c.Name); !named {
			return "the policy does not name it"
		}
	case (x.Type != PickN || x.edited) && !x.match(c):
		return noMatch
	}
	return ""
}

const noMatch = "it matches none of the required terms"

// hinders returns why a cluster is not picked anew, or "" if it may be.
func (x *matcher) hinders(c *Cluster) string {
	if x.Type != PickFixed && !x.match(c) {
		return noMatch
	}
	if c.Unhealthy != "" {
		return "it is not healthy: " + clip(c.Unhealthy)
	}
	if x.Type == PickFixed {
		return ""
	}
	if x.namespace != "" && c.Namespaces != nil && !slices.Contains(c.Namespaces, x.namespace) {
		return "it has no namespace " + x.namespace
	}
	if taint, found := x.repels(c); found {
		return fmt.Sprintf("the policy does not tolerate its taint %s", taint)
	}
	for _, s := range x.Spread {
		if _, ok := c.Labels[s.TopologyKey]; !ok && s.defaulted().WhenUnsatisfiable == DoNotSchedule {
			return fmt.Sprintf("it has no label %s, over which the policy spreads", s.TopologyKey)
		}
	}
	return ""
}

func (c *candidate) pick(format string, args ...any) {
	c.picked, c.kept, c.reason = true, false, fmt.Sprintf(format, args...)
}

func (c *candidate) drop(format string, args ...any) {
	c.picked, c.kept, c.reason = false, false, fmt.Sprintf(format, args...)
}
