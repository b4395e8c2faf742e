package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Previous is the last selection of a placement. The zero value is that of a new placement.
type Previous struct {
	// PolicyDigest is that of the selection by which the clusters were picked.
	PolicyDigest string
	// Clusters are the names of the clusters that are placed; the value reports whether the cluster was ever
	// updated.
	Clusters map[string]bool
	// HeldOut are the clusters that are not picked, whatever the policy says, and why.
	HeldOut map[string]string
	// Namespace, where it is not empty, is the namespace that what is placed goes to and does not bring. A cluster of which the
	// namespaces are known and that one is not among them is not picked where it was not before, unless the policy is
	// PickFixed. What is there stays.
	Namespace string
}

// Evaluation explains a selection for one cluster.
type Evaluation struct {
	// Cluster is the name of a cluster of the inventory, or one that a PickFixed policy names and the inventory does not have.
	Cluster string `json:"cluster"`
	// Picked reports whether the selection has the cluster.
	Picked bool `json:"picked"`
	// Score is what clusters of a PickN policy are chosen by.
	Score Score `json:"score"`
	// Reason is a sentence that says why the cluster is picked or not.
	Reason string `json:"reason"`
}

// Score ranks clusters: the greater Spread is better, then the greater
// Affinity, then the name that comes later in the alphabet.
type Score struct {
	// Spread is 0 where the clusters are spread evenly. Each constraint takes
	// away 1 for every cluster that the domain has more than the emptiest one,
	// and 1000 where it does not hold. It is that of the moment in which the
	// cluster was picked or dropped; of others, that of the end.
	Spread int `json:"spread"`
	// Affinity is the sum of what the cluster gets of the preferences.
	Affinity int `json:"affinity"`
}

// Decide is [Resolve] for a placement that may have clusters already, for all
// types of policies, and with a verdict for every cluster of the inventory and
// every one that the policy names, by name.
//
// A placed cluster stays despite new taints or bad health, unless it is held out, is leaving or no longer matches the
// policy. A PickAll or PickFixed policy matches placed clusters again with each selection, a PickN policy only
// after it was edited in more than its number. A PickFixed policy picks what it names despite taints, as far as
// the inventory has it and it is healthy; without names it picks nothing.
//
// A PickN policy keeps the clusters that stay and picks one more at a time,
// each with the best [Score], until it has enough. Where there are too many it
// drops one at a time, those that were never updated first, then by the
// lowest score, and then by name.
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
		verdicts[i] = Evaluation{Cluster: c.Name, Picked: c.picked, Score: c.score, Reason: c.reason}
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

// candidate is a cluster with the selection about it.
type candidate struct {
	*Cluster
	score Score
	// stays reports whether the cluster is placed and may stay, updated that it was
	// updated.
	stays, updated bool
	// bar says why the cluster is not picked again; empty if it may be.
	bar string
	// domains are those of the spread constraints, by number.
	domains []int
	picked  bool
	reason  string
}

// candidates evaluates every cluster by itself. That decides a PickAll or PickFixed policy; a PickN policy
// has picked nothing yet.
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
	// names are those of a PickFixed policy, ascending.
	names  []string
	match  func(*Cluster) bool
	edited bool
	// namespace is the one that clusters are to have.
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
		if c.bar != "" {
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

// expels says why a cluster may not even stay, if it may not.
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

// hinders says why a cluster is not picked again, if it is not.
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
	c.picked, c.reason = true, "picked: "+fmt.Sprintf(format, args...)
}

// notPicked begins the reason of what is not picked.
const notPicked = "not picked: "

func (c *candidate) drop(format string, args ...any) {
	c.picked, c.reason = false, notPicked+fmt.Sprintf(format, args...)
}
