package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostReasons is how many reasons a shortfall lists.
const mostReasons = 5

// Shortfall says in a sentence that a PickN policy picks fewer clusters than it
// wants, and why the others are not picked, the most frequent reasons first. It
// is empty where there are as many as wanted, and for other policies.
func Shortfall(p Policy, verdicts []Evaluation) string {
	if p.Type != PickN || p.NumberOfClusters == nil {
		return ""
	}
	picked, by := 0, map[string]int{}
	for _, v := range verdicts {
		if v.Picked {
			picked++
			continue
		}
		by[strings.TrimPrefix(v.Reason, notPicked)]++
	}
	if picked >= *p.NumberOfClusters {
		return ""
	}
	s := fmt.Sprintf("only %d of %d clusters can be picked", picked, *p.NumberOfClusters)
	if len(by) == 0 {
		return s + ": there are no others"
	}
	reasons := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), strings.Compare(a, b))
	})
	for i, r := range reasons[:min(len(reasons), mostReasons)] {
		sep := "; "
		if i == 0 {
			sep = ". Not picked: "
		}
		s += fmt.Sprintf("%s%d, since %s", sep, by[r], r)
	}
	if more := len(reasons) - mostReasons; more > 0 {
		s += fmt.Sprintf("; and for %d more reasons", more)
	}
	return s
}
