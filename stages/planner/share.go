package planner

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// isShare reports whether a stage takes clusters that no stage selects.
func isShare(s *stages.Stage) bool { return s.Take != nil || s.Rest }

// takesAll reports whether a stage takes all remaining clusters that match its selector.
func takesAll(s *stages.Stage) bool { return s.Rest || s.Take.String() == "100%" }

// assignShares gives the clusters that no stage selects to the stages with a share, one stage after
// the other. If the strategy has a final stage, that stage then takes the remaining clusters.
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

// share puts a stage's share of the remaining clusters into its groups, and returns the other
// clusters, by name.
//
// In a run that catches up, a cluster is in the stage that took it when the first run was planned.
// A stage with a share of less than 100% took its share at that time, so it takes no cluster that
// joined later.
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

// inOrder returns clusters ordered by a sort key, or by name if the key is empty. Clusters whose
// sort label is invalid come first, so that a stage takes and reports them.
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

// hasShare reports whether the strategy has a stage of that name with a share or the rest.
func (b *planner) hasShare(name string) bool {
	return slices.ContainsFunc(b.plan.Strategy.Stages, func(st stages.Stage) bool { return st.Name == name && isShare(&st) })
}

// hasGroupFor reports whether a stage may take a cluster: with UnassignedExclude one of its groups
// must select it. into is reused memory.
func (b *planner) hasGroupFor(st *openStage, c *candidate, into *[]int) bool {
	if b.plan.Strategy.Unassigned != stages.UnassignedExclude {
		return true
	}
	*into = st.groups.pick(c, *into)
	return len(*into) > 0
}

// selectorOf returns a valid selector; nil selects everything.
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
