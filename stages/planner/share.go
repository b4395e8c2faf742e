package planner

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// isShare reports whether a stage takes of the clusters that no stage selects.
func isShare(s *stages.Stage) bool { return s.Take != nil || s.Rest }

// takesAll reports whether a stage takes all clusters that are left and that it selects.
func takesAll(s *stages.Stage) bool { return s.Rest || s.Take.String() == "100%" }

// assignShares gives the clusters that no stage selects to the stages that take of what is left, one stage after
// the other, and what is left then to the final stage, where the strategy has one: that is a stage of the rest.
func (b *planner) assignShares(found *findings) {
	for _, st := range b.stages {
		if isShare(&st.stage) && len(found.unassigned) > 0 {
			found.unassigned = b.share(st, found)
		}
	}
	if len(found.unassigned) > 0 && b.plan.Strategy.Unassigned == stages.UnassignedFinalStage {
		last := newOpenStage(stages.Stage{Name: stages.FinalStageName, Rest: true})
		b.stages = append(b.stages, last)
		found.unassigned = b.share(last, found)
	}
}

// share puts a stage's share of the clusters that are left into its groups, and returns the others, by name.
//
// Of a run that catches up, a cluster stands in the stage that took it when the run was planned. A share of less than
// all was taken then, and is not taken of those that joined since.
func (b *planner) share(st *openStage, found *findings) (others []int) {
	selector := selectorOf(st.stage.Selector)
	var taken, candidates, groups []int
	for _, i := range found.unassigned {
		c := &b.clusters[i]
		had, known := b.target.Stages[c.Name]
		switch {
		case known && had == st.stage.Name:
			taken = append(taken, i)
		case known && b.hasShare(had), !selector.Matches(labels.Set(c.Labels)), !b.hasGroupFor(st, c, &groups):
			others = append(others, i)
		default:
			candidates = append(candidates, i)
		}
	}
	n := len(candidates)
	switch {
	case takesAll(&st.stage):
	case b.target.Part:
		n = 0
	default:
		n = min(n, values.ResolveConcurrency(st.stage.Take, n, 0))
		if want, percent, _ := values.ParseLimit(*st.stage.Take, 1); !percent && n < want && n > 0 {
			b.warn("stage %s takes %s, and there are %d left", st.stage.Name, clusterCount(want), n)
		}
	}
	if n > 0 && n < len(candidates) {
		candidates = b.inOrder(candidates, st.stage.SortKey)
	}
	taken, others = append(taken, candidates[:n]...), append(others, candidates[n:]...)
	slices.Sort(others)
	slices.Sort(taken)
	for _, i := range taken {
		c := &b.clusters[i]
		groups = st.groups.pick(c, groups)
		st.put(i, c, groups, found)
	}
	return others
}

// inOrder returns clusters in the order of a sort key, which is empty for that of the names. Those that the key cannot
// order come first: a stage that takes them reports them.
func (b *planner) inOrder(clusters []int, sortKey string) []int {
	p := part{sortKey: sortKey}
	for _, i := range clusters {
		p.add(i, &b.clusters[i])
	}
	p.sort()
	out := p.unsorted
	for _, e := range p.entries {
		out = append(out, e.cluster)
	}
	return out
}

// hasShare reports whether the strategy has a stage of that name which takes of what is left.
func (b *planner) hasShare(name string) bool {
	return slices.ContainsFunc(b.plan.Strategy.Stages, func(st stages.Stage) bool { return st.Name == name && isShare(&st) })
}

// hasGroupFor reports whether a stage may have a cluster: with UnassignedExclude one of its groups selects it. into is
// memory.
func (b *planner) hasGroupFor(st *openStage, c *candidate, into *[]int) bool {
	if b.plan.Strategy.Unassigned != stages.UnassignedExclude {
		return true
	}
	*into = st.groups.pick(c, *into)
	return len(*into) > 0
}

// selectorOf returns a selector that was validated; nil selects everything.
func selectorOf(s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}
