package stages

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// planStage is a stage with the clusters it has picked so far.
type planStage struct {
	stage  Stage
	groups planPickers
	parts  []planPart
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
	s := &b.plan.Strategy
	picks := make([]planPick, len(s.Stages))
	even := len(b.clusters) / len(s.Stages)
	for i := range s.Stages {
		b.stages = append(b.stages, newPlanStage(s.Stages[i], even+even/8))
		picks[i] = planPick{s.Stages[i].Selector, s.Stages[i].Clusters}
	}
	pickers, found := newPlanPickers(picks), planFindings{}
	for i := range b.clusters {
		picked := pickers.pick(&b.clusters[i])
		if s.Unassigned == UnassignedExclude {
			picked = slices.DeleteFunc(picked, func(st int) bool { return !b.stages[st].takes(&b.clusters[i]) })
		}
		for _, st := range picked {
			b.stages[st].put(i, &b.clusters[i], &found)
		}
		found.stages(b, i, picked)
	}
	found.report(b)
	b.checkNamed()
}

// takes tells whether a group of the stage picks the cluster.
func (s *planStage) takes(c *planCluster) bool { return len(s.groups.pick(c)) > 0 }

// put puts cluster i into the groups of the stage that pick it.
func (s *planStage) put(i int, c *planCluster, found *planFindings) {
	picked := s.groups.pick(c)
	for _, g := range picked {
		s.parts[g].add(i, c)
	}
	if len(picked) != 1 {
		names := make([]string, len(picked))
		for j, g := range picked {
			names[j] = s.parts[g].group.Name
		}
		found.add(i, planFinding{stage: s.stage.Name, names: planAnd(names)})
	}
}

// add puts a cluster into the part.
func (p *planPart) add(cluster int, c *planCluster) {
	if p.sortKey == "" {
		p.entries = append(p.entries, planKeyed{uint64(p.rank[c.Name]), cluster})
		return
	}
	value, ok := c.Labels[p.sortKey]
	if !ok {
		p.without = append(p.without, cluster)
		return
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		p.unsorted = append(p.unsorted, cluster)
		return
	}
	p.entries = append(p.entries, planKeyed{planIntKey(n), cluster})
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
			last.parts[0].add(i, &b.clusters[i])
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

// planPickers answers which of several selectors match a set of labels.
// Selectors that ask for one label's value, as most do, are looked up; the
// others are tried one by one. Names are looked up too.
type planPickers struct {
	names  map[string][]int
	equal  []planEqual
	others []planOther
	picked []int
}

// planEqual is the selectors that ask for the value of one label.
type planEqual struct {
	key    string
	values map[string][]int
}

type planOther struct {
	index    int
	selector labels.Selector
}

// newPlanPickers takes selectors that have been validated.
func newPlanPickers(picks []planPick) planPickers {
	var p planPickers
	for i, pick := range picks {
		p.name(i, pick.names)
		sel := pick.selector
		if sel == nil {
			continue
		}
		if len(sel.MatchLabels) == 1 && len(sel.MatchExpressions) == 0 {
			for key, value := range sel.MatchLabels {
				p.lookUp(i, key, value)
			}
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(sel)
		if err == nil {
			p.others = append(p.others, planOther{i, selector})
		}
	}
	return p
}

func (p *planPickers) lookUp(i int, key, value string) {
	for _, e := range p.equal {
		if e.key == key {
			e.values[value] = append(e.values[value], i)
			return
		}
	}
	p.equal = append(p.equal, planEqual{key, map[string][]int{value: {i}}})
}

// pick returns the selectors that match, ascending, until the next call.
func (p *planPickers) pick(c *planCluster) []int {
	set := c.Labels
	p.picked = append(p.picked[:0], p.names[c.Name]...)
	for _, e := range p.equal {
		if value, ok := set[e.key]; ok {
			p.picked = append(p.picked, e.values[value]...)
		}
	}
	for _, o := range p.others {
		if o.selector.Matches(labels.Set(set)) {
			p.picked = append(p.picked, o.index)
		}
	}
	if len(p.picked) > 1 {
		slices.Sort(p.picked)
	}
	return p.picked
}
