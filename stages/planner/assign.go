package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// openStage is a stage with the clusters it has picked so far.
type openStage struct {
	stage  stages.Stage
	groups pickers
	parts  []part
}

// part is a group, or a stage without groups.
type part struct {
	group   stages.Group
	sortKey string
	// entries are ordered by sort key. They refer to planner.clusters, which are ordered by name.
	entries []entry
	// unsorted are the clusters whose sort label is no integer. The clusters in without have no sort
	// label.
	unsorted, without []int
	// rank is the place of each cluster that is picked by name; nil if none is.
	rank map[string]int
	// unproven is the number of the first entries that are unproven, if the group begins with them.
	unproven int
}

// entry is a cluster of a part, with the key that orders it there.
type entry struct {
	key     int64
	cluster int
}

func newOpenStage(st stages.Stage) *openStage {
	groups := st.Groups
	if len(groups) == 0 {
		groups = []stages.Group{{Selector: &metav1.LabelSelector{}, MaxConcurrency: st.MaxConcurrency}}
	}
	s := &openStage{stage: st, parts: make([]part, len(groups))}
	picks := make([]pick, len(groups))
	for i, g := range groups {
		s.parts[i] = part{group: g, sortKey: cmp.Or(g.SortKey, st.SortKey)}
		s.parts[i].rank = ranksOf(g.Clusters, st.Clusters)
		picks[i] = pick{g.Selector, g.Clusters, g.New}
	}
	s.groups = newPickers(picks)
	return s
}

// assign puts every cluster into the parts that pick it, gives stages their shares of the clusters
// that no stage selects, and reports clusters that are not in exactly one stage and group.
func (b *planner) assign() {
	b.newStages()
	var found findings
	b.assignSelected(&found)
	b.assignShares(&found)
	found.report(b)
	b.checkNamed()
}

// assignSelected puts the clusters into the stages that select them.
func (b *planner) assignSelected(found *findings) {
	var picked, groups []int
	for i := range b.clusters {
		c := &b.clusters[i]
		picked = b.pickers.pick(c, picked)
		if b.plan.Strategy.Unassigned == stages.UnassignedExclude {
			picked = slices.DeleteFunc(picked, func(st int) bool {
				groups = b.stages[st].groups.pick(c, groups)
				return len(groups) == 0
			})
		}
		for _, st := range picked {
			groups = b.stages[st].groups.pick(c, groups)
			b.stages[st].put(i, c, groups, found)
		}
		found.stages(b, i, picked)
	}
}

func (b *planner) newStages() {
	s := &b.plan.Strategy
	picks := make([]pick, len(s.Stages))
	for i := range s.Stages {
		st := newOpenStage(s.Stages[i])
		b.stages = append(b.stages, st)
		if !isShare(&st.stage) {
			picks[i] = pick{selector: st.stage.Selector, names: st.stage.Clusters}
		}
	}
	b.pickers = newPickers(picks)
}

// put puts cluster i into the groups of the stage that pick it.
func (s *openStage) put(i int, c *candidate, groups []int, found *findings) {
	for _, g := range groups {
		s.parts[g].add(i, c)
	}
	if len(groups) != 1 {
		names := make([]string, len(groups))
		for j, g := range groups {
			names[j] = s.parts[g].group.Name
		}
		found.add(i, finding{stage: s.stage.Name, names: joinAnd(names)})
	}
}

// add puts cluster i into the part.
func (p *part) add(i int, c *candidate) {
	if p.sortKey == "" {
		p.entries = append(p.entries, entry{int64(p.rank[c.Name]), i})
		return
	}
	value, labelled := c.Labels[p.sortKey]
	key, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !labelled:
		p.without = append(p.without, i)
	case err != nil:
		p.unsorted = append(p.unsorted, i)
	default:
		p.entries = append(p.entries, entry{key, i})
	}
}

// finding is a problem with the assignment of clusters. names are the stages that all pick a
// cluster or, if stage is set, the groups of that stage that do.
type finding struct{ stage, names string }

// findings groups clusters by the problem with their assignment.
type findings struct {
	kinds    []finding
	clusters map[finding][]int
	// unassigned are the clusters in no stage.
	unassigned []int
}

func (f *findings) add(cluster int, kind finding) {
	if f.clusters == nil {
		f.clusters = map[finding][]int{}
	}
	if f.clusters[kind] == nil {
		f.kinds = append(f.kinds, kind)
	}
	f.clusters[kind] = append(f.clusters[kind], cluster)
}

func (f *findings) stages(b *planner, cluster int, picked []int) {
	switch len(picked) {
	case 0:
		f.unassigned = append(f.unassigned, cluster)
	case 1:
	default:
		names := make([]string, len(picked))
		for i, st := range picked {
			names[i] = b.stages[st].stage.Name
		}
		f.add(cluster, finding{names: joinAnd(names)})
	}
}

func (f *findings) report(b *planner) {
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

// leave handles the clusters in no stage, as the strategy requires.
func (b *planner) leave(at *field.Path, unassigned []int) {
	names := b.names(unassigned)
	if b.plan.Strategy.Unassigned == stages.UnassignedExclude {
		b.warn("clusters that no stage selects are left out: %s", someOf(names))
		return
	}
	b.fail(at, names, fmt.Sprintf("in no stage of strategy %s; every cluster must be in exactly one (%s): correct a selector of the strategy or a label, "+
		"or set unassigned of the strategy to Exclude or FinalStage", cmp.Or(b.plan.Strategy.Name, "without a name"), b.labelsOf(unassigned)))
}

// labelsOf lists the labels of clusters, of at most three.
func (b *planner) labelsOf(clusters []int) string {
	const most = 3
	var out []string
	for _, c := range clusters[:min(len(clusters), most)] {
		has := "no labels"
		if l := b.clusters[c].Labels; len(l) > 0 {
			has = "the labels " + labels.FormatLabels(l)
		}
		out = append(out, b.clusters[c].Name+" has "+has)
	}
	return strings.Join(out, "; ")
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

func (b *planner) orderPart(st *openStage, part *part) {
	if part.sortKey != "" || part.rank != nil { // otherwise they are by name
		b.sortPart(st, part)
	}
	if part.group.UnprovenFirst {
		proven := slices.Clone(part.entries)
		proven = slices.DeleteFunc(proven, func(e entry) bool { return b.clusters[e.cluster].isUnproven })
		unproven := slices.DeleteFunc(part.entries, func(e entry) bool { return !b.clusters[e.cluster].isUnproven })
		part.entries, part.unproven = append(unproven, proven...), len(unproven)
	}
}

func (b *planner) sortPart(st *openStage, part *part) {
	where := whereOf(st.stage.Name, part.group.Name)
	bad := b.names(part.unsorted)
	for i, c := range part.unsorted {
		bad[i] += "=" + shorten(b.clusters[c].Labels[part.sortKey])
	}
	b.fail(field.NewPath("clusters"), bad, "label "+part.sortKey+", which orders "+where+", must be an integer")
	if len(part.without) > 0 {
		b.warn("clusters of %s without the label %s come last: %s", where, part.sortKey, someOf(b.names(part.without)))
	}
	part.sort()
}

// sort sorts the clusters of the part by key. Clusters without a key come last.
func (p *part) sort() {
	slices.SortFunc(p.entries, func(a, b entry) int {
		if a.key != b.key {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Compare(a.cluster, b.cluster)
	})
	for _, i := range p.without {
		p.entries = append(p.entries, entry{cluster: i})
	}
	p.without = nil
}

// shorten shortens the value of a label for an error, because nothing has checked its length.
func shorten(value string) string {
	if len(value) <= validation.LabelValueMaxLength {
		return value
	}
	return value[:validation.LabelValueMaxLength] + "…"
}

func joinAnd(names []string) string { return strings.Join(names, " and ") }
