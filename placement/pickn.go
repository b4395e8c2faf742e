package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// pickN picks the clusters of a PickN policy: first all that stay, then one more or one less at a
// time until their number is the policy's.
func (p Policy) pickN(all []*candidate) {
	possible := slices.DeleteFunc(slices.Clone(all), func(c *candidate) bool { return !c.stays && c.bar != "" })
	s := newSpread(p.Spread, possible)
	var stay, wait []*candidate
	for _, c := range possible {
		if c.stays {
			stay = append(stay, c)
		} else {
			wait = append(wait, c)
		}
	}
	n := *p.NumberOfClusters
	s.dropTo(n, stay)
	s.pickTo(n, len(stay), wait)
	for _, c := range stay {
		if c.picked {
			c.score.Spread = s.score(c, 0)
		}
	}
}

// dropTo drops clusters that stay until there are n.
func (s spread) dropTo(n int, stay []*candidate) {
	waiting := groups(stay, worstFirst)
	for placed := len(stay); placed > n; placed-- {
		i := s.worst(waiting)
		c := waiting[i][0]
		waiting[i] = waiting[i][1:]
		s.add(c, -1)
		why := "its score is the lowest"
		if !c.updated {
			why = "it was never updated"
		}
		c.drop("of the %d that are placed, %s, and %d are wanted", placed, why, n)
	}
}

// pickTo picks waiting clusters until n are picked or no other cluster qualifies.
func (s spread) pickTo(n, placed int, wait []*candidate) {
	waiting := groups(wait, bestFirst)
	for ; placed < n; placed++ {
		i := s.best(waiting)
		if i < 0 {
			break
		}
		c := waiting[i][0]
		waiting[i] = waiting[i][1:]
		s.add(c, 1)
		c.pick("it comes as number %d of %d, with a score of %d for the spread and %d for affinity",
			placed+1, n, c.score.Spread, c.score.Affinity)
	}
	for _, g := range waiting {
		for _, c := range g {
			c.score.Spread = s.score(c, 1)
			c.drop("%s", s.left(c, n))
		}
	}
}

// left says why a cluster that may be picked is not, if n are wanted.
func (s spread) left(c *candidate, n int) string {
	if t := s.blocks(c); t != nil {
		value := c.Labels[t.TopologyKey]
		return fmt.Sprintf("one more with %s=%s would be %d more than there are elsewhere, and the policy allows %d",
			t.TopologyKey, value, t.counts[t.index[value]]+1-t.least, t.MaxSkew)
	}
	return fmt.Sprintf("the policy wants %d, and others come before it", n)
}

// best returns the group whose first cluster is picked next, or -1.
func (s spread) best(waiting [][]*candidate) int {
	best := -1
	for i, g := range waiting {
		if len(g) == 0 || s.blocks(g[0]) != nil {
			continue
		}
		g[0].score.Spread = s.score(g[0], 1)
		if best < 0 || byScore(g[0], waiting[best][0]) > 0 {
			best = i
		}
	}
	return best
}

// worst returns the group whose first cluster is dropped next; there is one.
func (s spread) worst(waiting [][]*candidate) int {
	worst := -1
	for i, g := range waiting {
		if len(g) == 0 {
			continue
		}
		g[0].score.Spread = s.score(g[0], 0)
		if worst < 0 || byUpdate(g[0], waiting[worst][0]) < 0 {
			worst = i
		}
	}
	return worst
}

// byScore compares clusters; the greater is picked first.
func byScore(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.score.Spread, b.score.Spread), cmp.Compare(a.score.Affinity, b.score.Affinity), strings.Compare(a.Name, b.Name))
}

// byUpdate compares clusters; the less is dropped first.
func byUpdate(a, b *candidate) int {
	if a.updated != b.updated {
		if b.updated {
			return -1
		}
		return 1
	}
	return byScore(a, b)
}

// bestFirst and worstFirst order the clusters of a group, which have no score for the spread yet.
func bestFirst(a, b *candidate) int  { return byScore(b, a) }
func worstFirst(a, b *candidate) int { return byUpdate(a, b) }
