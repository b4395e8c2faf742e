package placement

import (
	"slices"
	"strconv"
	"strings"
)

// noDomain stands for the domain of a cluster that does not have the label.
const noDomain = -1

// brokenSpread is the score that a broken constraint costs. The number is KubeFleet's.
const brokenSpread = 1000

// tally counts the picked clusters of each domain of a constraint.
type tally struct {
	SpreadConstraint
	index  map[string]int
	counts []int
	least  int
}

// domain returns the number of the cluster's domain, and adds the domain if it is new.
func (t *tally) domain(c *Cluster) int {
	value, ok := c.Labels[t.TopologyKey]
	if !ok {
		return noDomain
	}
	i, ok := t.index[value]
	if !ok {
		i = len(t.counts)
		t.index[value] = i
		t.counts = append(t.counts, 0)
		t.least = 0
	}
	return i
}

func (t *tally) add(domain, n int) {
	if domain != noDomain {
		t.counts[domain] += n
		t.least = slices.Min(t.counts)
	}
}

// breaks reports whether the constraint does not hold in a domain with more clusters than now.
func (t *tally) breaks(domain, more int) bool {
	return domain == noDomain || t.counts[domain]+more-t.least > t.MaxSkew
}

// spread is the constraints of a policy with the counts of picked clusters.
type spread []*tally

// newSpread assigns domains to the clusters that are placed or may be picked, and counts the
// placed ones.
func newSpread(constraints []SpreadConstraint, clusters []*candidate) spread {
	s := make(spread, len(constraints))
	for i, c := range constraints {
		s[i] = &tally{SpreadConstraint: c.defaulted(), index: map[string]int{}}
	}
	for _, c := range clusters {
		c.domains = make([]int, len(s))
		for i, t := range s {
			c.domains[i] = t.domain(c.Cluster)
		}
	}
	for _, c := range clusters {
		if c.stays {
			s.add(c, 1)
		}
	}
	return s
}

func (s spread) add(c *candidate, n int) {
	for i, t := range s {
		t.add(c.domains[i], n)
	}
}

// blocks returns the constraint that keeps a cluster from being picked next,
// or nil.
func (s spread) blocks(c *candidate) *tally {
	for i, t := range s {
		if t.WhenUnsatisfiable == DoNotSchedule && t.breaks(c.domains[i], 1) {
			return t
		}
	}
	return nil
}

// score returns how even the spread is in the domains of c with more clusters: 0 at best, 1 less
// for each cluster that its domains have more than the emptiest ones, and brokenSpread less for
// each broken constraint.
func (s spread) score(c *candidate, more int) int {
	score := 0
	for i, t := range s {
		if t.breaks(c.domains[i], more) {
			score -= brokenSpread
		}
		if c.domains[i] != noDomain {
			score -= t.counts[c.domains[i]] - t.least
		}
	}
	return score
}

// groups divides clusters by their domains, because the spread makes no difference within a
// group. Each group is sorted by compare.
func groups(clusters []*candidate, compare func(a, b *candidate) int) [][]*candidate {
	var out [][]*candidate
	index := map[string]int{}
	for _, c := range clusters {
		key := c.domainKey()
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], c)
	}
	for _, g := range out {
		slices.SortFunc(g, compare)
	}
	return out
}

func (c *candidate) domainKey() string {
	var b strings.Builder
	for _, d := range c.domains {
		b.WriteString(strconv.Itoa(d))
		b.WriteByte(' ')
	}
	return b.String()
}
