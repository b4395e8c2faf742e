package stages

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// planStage is a stage with the clusters it has picked so far.
type planStage struct {
	stage  Stage
	groups planPickers
	parts  []planPart
	// first is the index of the first part among those of all stages.
	first int
}

// planPart is a group, or a stage without groups.
type planPart struct {
	group   Group
	sortKey string
	// entries are by sort key, as indexes into planner.clusters, which are in
	// order of name.
	entries []planKeyed
	// unsorted have a sort label that is no integer, without none.
	unsorted, without []int
	// rank is the place of each cluster that is picked by name; nil where none is.
	rank map[string]int
}

// newPlanStage returns a stage with room for so many clusters.
func newPlanStage(st Stage, room int) *planStage {
	groups := st.Groups
	if len(groups) == 0 {
		groups = []Group{{Selector: &metav1.LabelSelector{}, MaxConcurrency: st.MaxConcurrency}}
	}
	s := &planStage{stage: st, parts: make([]planPart, len(groups))}
	picks := make([]planPick, len(groups))
	for i, g := range groups {
		s.parts[i] = planPart{group: g, sortKey: cmp.Or(g.SortKey, st.SortKey), entries: make([]planKeyed, 0, room/len(groups))}
		s.parts[i].rank = planRank(g.Clusters, st.Clusters)
		picks[i] = planPick{g.Selector, g.Clusters}
	}
	s.groups = newPlanPickers(picks)
	return s
}

// assign puts every cluster into the parts that pick it, and reports those
// that are not picked by exactly one.
func (b *planner) assign() {
	b.newStages()
	places := make([]planPlace, len(b.clusters))
	planSplit(len(places), func(_, from, to int) { b.locate(places, from, to) })
	var found planFindings
	for i := range places {
		if at := &places[i]; at.by == planUnplaced {
			b.assignOther(i, &found)
		} else {
			b.parts[at.part].add(i, *at)
		}
	}
	found.report(b)
	b.checkNamed()
}

func (b *planner) newStages() {
	s := &b.plan.Strategy
	picks := make([]planPick, len(s.Stages))
	even := len(b.clusters) / len(s.Stages)
	for i := range s.Stages {
		st := newPlanStage(s.Stages[i], even+even/8)
		st.first = len(b.parts)
		for j := range st.parts {
			b.parts = append(b.parts, &st.parts[j])
		}
		b.stages = append(b.stages, st)
		picks[i] = planPick{st.stage.Selector, st.stage.Clusters}
	}
	b.pickers = newPlanPickers(picks)
}

// planPlace is where a cluster stands: the part that alone picks it, an index into
// planner.parts, and what orders it there.
type planPlace struct {
	key  uint64
	part int32
	by   planOrder
}

// planOrder tells what orders a cluster in its part.
type planOrder int8

const (
	planUnplaced planOrder = iota // it is in no part, or in more than one
	planHasKey
	planHasNoLabel   // of those that have the keys
	planHasNoInteger // in that label
)

// locate looks where the clusters between two bounds stand.
func (b *planner) locate(places []planPlace, from, to int) {
	var stages, groups []int
	for i := from; i < to; i++ {
		c := &b.clusters[i]
		if stages = b.pickers.pick(c, stages); len(stages) != 1 {
			continue
		}
		st := b.stages[stages[0]]
		if groups = st.groups.pick(c, groups); len(groups) != 1 {
			continue
		}
		places[i] = st.parts[groups[0]].place(c)
		places[i].part = int32(st.first + groups[0])
	}
}

// assignOther assigns a cluster that is not picked by exactly one stage and one of
// its groups.
func (b *planner) assignOther(i int, found *planFindings) {
	c := &b.clusters[i]
	picked := b.pickers.pick(c, nil)
	if b.plan.Strategy.Unassigned == UnassignedExclude {
		picked = slices.DeleteFunc(picked, func(st int) bool { return len(b.stages[st].groups.pick(c, nil)) == 0 })
	}
	for _, st := range picked {
		b.stages[st].put(i, c, found)
	}
	found.stages(b, i, picked)
}

// put puts cluster i into the groups of the stage that pick it.
func (s *planStage) put(i int, c *planCluster, found *planFindings) {
	picked := s.groups.pick(c, nil)
	for _, g := range picked {
		s.parts[g].add(i, s.parts[g].place(c))
	}
	if len(picked) != 1 {
		names := make([]string, len(picked))
		for j, g := range picked {
			names[j] = s.parts[g].group.Name
		}
		found.add(i, planFinding{stage: s.stage.Name, names: planAnd(names)})
	}
}

// place tells what orders a cluster in the part.
func (p *planPart) place(c *planCluster) planPlace {
	if p.sortKey == "" {
		return planPlace{key: uint64(p.rank[c.Name]), by: planHasKey}
	}
	value, ok := c.Labels[p.sortKey]
	if !ok {
		return planPlace{by: planHasNoLabel}
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return planPlace{by: planHasNoInteger}
	}
	return planPlace{key: planIntKey(n), by: planHasKey}
}

// add puts a cluster into the part.
func (p *planPart) add(cluster int, at planPlace) {
	switch at.by {
	case planHasNoLabel:
		p.without = append(p.without, cluster)
	case planHasNoInteger:
		p.unsorted = append(p.unsorted, cluster)
	default:
		p.entries = append(p.entries, planKeyed{at.key, cluster})
	}
}

// planIntKey is n as a number without a sign that orders like n.
func planIntKey(n int64) uint64 { return uint64(n) ^ 1<<63 }

// planFinding is what is wrong with where clusters stand; names are the stages
// or, in a stage, the groups that pick them all.
type planFinding struct{ stage, names string }

// planFindings are clusters by what is wrong with where they stand.
type planFindings struct {
	kinds    []planFinding
	clusters map[planFinding][]int
	// unassigned are the clusters in no stage.
	unassigned []int
}

func (f *planFindings) add(cluster int, kind planFinding) {
	if f.clusters == nil {
		f.clusters = map[planFinding][]int{}
	}
	if f.clusters[kind] == nil {
		f.kinds = append(f.kinds, kind)
	}
	f.clusters[kind] = append(f.clusters[kind], cluster)
}

func (f *planFindings) stages(b *planner, cluster int, picked []int) {
	switch len(picked) {
	case 0:
		f.unassigned = append(f.unassigned, cluster)
	case 1:
	default:
		names := make([]string, len(picked))
		for i, st := range picked {
			names[i] = b.stages[st].stage.Name
		}
		f.add(cluster, planFinding{names: planAnd(names)})
	}
}

func (f *planFindings) report(b *planner) {
	at := field.NewPath("clusters")
	for _, k := range f.kinds {
		names := b.names(f.clusters[k])
		switch {
		case k.stage == "":
			b.fail(at, names, "in stages "+k.names+"; every cluster must be in exactly one stage")
		case k.names == "":
			b.fail(at, names, "in no group of stage "+k.stage+"; every cluster of the stage must be in exactly one")
		default:
			b.fail(at, names, "in groups "+k.names+" of stage "+k.stage+"; every cluster of the stage must be in exactly one")
		}
	}
	if len(f.unassigned) > 0 {
		b.leave(at, f.unassigned)
	}
}

// leave does with the clusters in no stage as the strategy says.
func (b *planner) leave(at *field.Path, unassigned []int) {
	names := b.names(unassigned)
	switch b.plan.Strategy.Unassigned {
	case UnassignedExclude:
		b.warn("clusters that no stage selects are left out: %s", planSome(names))
	case UnassignedFinalStage:
		last := newPlanStage(Stage{Name: FinalStageName}, len(unassigned))
		for _, i := range unassigned {
			last.parts[0].add(i, last.parts[0].place(&b.clusters[i]))
		}
		b.stages = append(b.stages, last)
	default:
		b.fail(at, names, "in no stage; every cluster must be in exactly one, or unassigned must be Exclude or FinalStage")
	}
}

// names returns the names of clusters.
func (b *planner) names(clusters []int) []string {
	out := make([]string, len(clusters))
	for i, c := range clusters {
		out[i] = b.clusters[c].Name
	}
	return out
}

// order sorts the clusters of every part.
func (b *planner) order() {
	for _, st := range b.stages {
		for i := range st.parts {
			b.orderPart(st, &st.parts[i])
		}
	}
}

func (b *planner) orderPart(st *planStage, part *planPart) {
	if part.sortKey == "" && part.rank == nil {
		return // already by name
	}
	where := planWhere(st.stage.Name, part.group.Name)
	bad := b.names(part.unsorted)
	for i, c := range part.unsorted {
		bad[i] += "=" + planShort(b.clusters[c].Labels[part.sortKey])
	}
	b.fail(field.NewPath("clusters"), bad, "label "+part.sortKey+", which orders "+where+", must be an integer")
	if len(part.without) > 0 {
		b.warn("clusters of %s without the label %s come last: %s", where, part.sortKey, planSome(b.names(part.without)))
	}
	if len(b.spare) < len(part.entries) {
		b.spare = make([]planKeyed, len(part.entries)+len(part.entries)/8)
	}
	planSortKeyed(part.entries, b.spare)
	for _, c := range part.without {
		part.entries = append(part.entries, planKeyed{at: c})
	}
}

func planWhere(stage, group string) string {
	if group == "" {
		return "stage " + stage
	}
	return "group " + group + " of stage " + stage
}

// planShort bounds a label's value in an error: nobody has checked it.
func planShort(value string) string {
	if len(value) <= validation.LabelValueMaxLength {
		return value
	}
	return value[:validation.LabelValueMaxLength] + "…"
}

func planAnd(names []string) string { return strings.Join(names, " and ") }
