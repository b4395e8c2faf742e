package placement

import (
	"cmp"
	"fmt"
	"slices"
)

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

func (c *candidate) pick(format string, args ...any) {
	c.picked, c.kept, c.reason = true, false, fmt.Sprintf(format, args...)
}

func (c *candidate) drop(format string, args ...any) {
	c.picked, c.kept, c.reason = false, false, fmt.Sprintf(format, args...)
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

// repels returns the first taint of a cluster that the policy does not tolerate.
func (p Policy) repels(c *Cluster) (Taint, bool) {
	i := slices.IndexFunc(c.Taints, func(taint Taint) bool {
		tolerated := slices.ContainsFunc(p.Tolerations, func(t Toleration) bool { return t.tolerates(taint) })
		return taint.Effect == NoSchedule && !tolerated
	})
	if i < 0 {
		return Taint{}, false
	}
	return c.Taints[i], true
}

func (t Toleration) tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == Exists || t.Value == taint.Value
}
