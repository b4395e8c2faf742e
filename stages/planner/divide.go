package planner

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Limits of failure domains.
const (
	// maxDomains is the maximum number of values of a label that divides a stage.
	maxDomains = 256
	// maxCells is the maximum number of combinations of a group and of values in a stage: a run
	// keeps a number for each.
	maxCells = 4096
)

// divide divides the clusters of a stage, which are the last clusters of the plan, into its failure
// domains.
func (b *planner) divide(st *openStage, out *stages.PlannedStage) {
	if len(st.stage.Domains) == 0 {
		return
	}
	members := b.members(st)
	if len(members) == 0 {
		return
	}
	tuples := make([][]int, len(members))
	for i := range st.stage.Domains {
		b.divideBy(&st.stage.Domains[i], i, members, tuples, out)
	}
	out.Cells = slices.CompactFunc(slices.SortedFunc(slices.Values(tuples), slices.Compare), slices.Equal)
	first := len(b.plan.Clusters) - len(members)
	for i, t := range tuples {
		b.plan.Clusters[first+i].Cell, _ = slices.BinarySearchFunc(out.Cells, t, slices.Compare)
	}
	b.checkCells(out)
}

// members returns the clusters of a stage in the order of the plan, as indexes into b.clusters.
func (b *planner) members(st *openStage) (out []int) {
	for i := range st.parts {
		for _, e := range st.parts[i].entries {
			out = append(out, e.cluster)
		}
	}
	return out
}

// divideBy adds the domains of one label, and adds each cluster's domain to its tuple.
func (b *planner) divideBy(d *stages.Domain, nth int, members []int, tuples [][]int, out *stages.PlannedStage) {
	clusters := map[values.LabelValue]int{}
	var without []string
	value := func(i int) values.LabelValue {
		v, ok := b.clusters[members[i]].Labels[d.Key]
		return values.LabelValue{Absent: !ok, Value: v}
	}
	for i, at := range members {
		v := value(i)
		clusters[v]++
		if v.Absent {
			without = append(without, b.clusters[at].Name)
		}
	}
	if len(clusters) > maxDomains {
		b.errs = append(b.errs, field.Invalid(b.stagePath(out.Name).Child("domains").Index(nth).Child("key"), d.Key,
			fmt.Sprintf("has %d values among the clusters of the stage, and may have %d: it must be a label that many clusters share", len(clusters), maxDomains)))
	}
	if len(without) > 0 {
		b.warn("clusters of stage %s without the label %s are a failure domain of their own: %s", out.Name, d.Key, someOf(without))
	}
	index := map[values.LabelValue]int{}
	for _, v := range slices.SortedFunc(maps.Keys(clusters), values.CompareLabelValues) {
		index[v] = len(out.Domains)
		n := clusters[v]
		out.Domains = append(out.Domains, stages.PlannedDomain{
			Key: d.Key, Value: v.Value, Absent: v.Absent, Clusters: n, MaxConcurrency: values.ResolveConcurrency(d.MaxConcurrency, n, 1),
		})
	}
	for i := range members {
		tuples[i] = append(tuples[i], index[value(i)])
	}
}

// stagePath returns the path in the strategy of the stage with that name.
func (b *planner) stagePath(name string) *field.Path {
	i := slices.IndexFunc(b.plan.Strategy.Stages, func(st stages.Stage) bool { return st.Name == name })
	return field.NewPath("strategy", "stages").Index(i)
}

// checkCells refuses a stage that is divided into too many parts.
func (b *planner) checkCells(out *stages.PlannedStage) {
	type part struct{ group, cell int }
	parts := map[part]bool{}
	for i, g := range out.Groups {
		for pos := g.First; pos < g.First+g.Len; pos++ {
			parts[part{i, b.plan.Clusters[pos].Cell}] = true
		}
	}
	if n := len(parts); n > maxCells {
		b.errs = append(b.errs, field.Invalid(b.stagePath(out.Name).Child("domains"), n,
			fmt.Sprintf("the groups and the values of the labels divide the stage into too many parts: there may be %d", maxCells)))
	}
}
