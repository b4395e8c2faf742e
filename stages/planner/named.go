package planner

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ranksOf returns the place of every name in the first non-empty list, or nil if both are empty.
func ranksOf(lists ...[]string) map[string]int {
	for _, names := range lists {
		if len(names) == 0 {
			continue
		}
		rank := make(map[string]int, len(names))
		for i, n := range names {
			rank[n] = i
		}
		return rank
	}
	return nil
}

// checkNamed reports clusters that are picked by name and do not exist.
func (b *planner) checkNamed() {
	if b.target.Part {
		return
	}
	unknown := func(name string) bool { return !b.has(name) }
	for _, st := range b.stages {
		b.fail(field.NewPath("clusters"), selectNames(st.stage.Clusters, unknown), "picked by name by stage "+st.stage.Name+", and the placement has not picked them")
		for i := range st.stage.Groups {
			g := &st.stage.Groups[i]
			b.fail(field.NewPath("clusters"), selectNames(g.Clusters, unknown), "picked by name by group "+g.Name+" of stage "+st.stage.Name+", and the placement has not picked them")
		}
	}
}

// selectNames returns the names for which is returns true.
func selectNames(names []string, is func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !is(name) })
}
