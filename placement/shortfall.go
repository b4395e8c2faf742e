package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// mostReasons is the maximum number of reasons in a shortfall.
	mostReasons = 5
	// mostNames is the maximum number of clusters of a PickFixed policy that it names for a
	// reason.
	mostNames = 10
)

// Shortfall returns a sentence if a PickN policy picks fewer clusters than its number, or a
// PickFixed policy fewer than its names. The sentence says why the others are not picked, the
// most frequent reasons first. It is empty if enough clusters are picked, and for other policies.
func Shortfall(p Policy, verdicts []Evaluation) string {
	wanted := 0
	switch {
	case p.Type == PickFixed:
		wanted = len(p.ClusterNames)
	case p.Type == PickN && p.NumberOfClusters != nil:
		wanted = *p.NumberOfClusters
	}
	picked, by := 0, map[string][]string{}
	for _, v := range verdicts {
		switch {
		case v.Picked:
			picked++
		case p.Type != PickFixed || slices.Contains(p.ClusterNames, v.Cluster):
			by[v.Reason] = append(by[v.Reason], v.Cluster)
		}
	}
	if picked >= wanted {
		return ""
	}
	s := fmt.Sprintf("only %d of %d clusters can be picked", picked, wanted)
	if len(by) == 0 {
		return s + ": there are no others"
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(by[b]), len(by[a])), strings.Compare(a, b))
	})
	for i, r := range reasons[:min(len(reasons), mostReasons)] {
		sep := "; "
		if i == 0 {
			sep = ". Not picked: "
		}
		s += fmt.Sprintf("%s%s, since %s", sep, p.listed(by[r]), r)
	}
	if more := len(reasons) - mostReasons; more > 0 {
		s += fmt.Sprintf("; and for %d more reasons", more)
	}
	return s
}

// listed returns the number of clusters, or their names for a PickFixed policy.
func (p Policy) listed(clusters []string) string {
	if p.Type != PickFixed {
		return fmt.Sprint(len(clusters))
	}
	s := strings.Join(clusters[:min(len(clusters), mostNames)], ", ")
	if more := len(clusters) - mostNames; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}
