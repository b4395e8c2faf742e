package stages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// planCheckDomains checks the failure domains of a stage.
func planCheckDomains(at *field.Path, domains []Domain) (errs field.ErrorList) {
	if len(domains) > maxDomainKeys {
		errs = append(errs, field.TooMany(at, len(domains), maxDomainKeys))
	}
	seen := sets.New[string]()
	for i, d := range domains {
		at := at.Index(i)
		switch {
		case d.Key == "":
			errs = append(errs, field.Required(at.Child("key"), "the key of a label, for example topology.kubernetes.io/region"))
		case seen.Has(d.Key):
			errs = append(errs, field.Duplicate(at.Child("key"), d.Key))
		}
		seen.Insert(d.Key)
		if d.Key != "" {
			for _, msg := range validation.IsQualifiedName(d.Key) {
				errs = append(errs, field.Invalid(at.Child("key"), d.Key, "is not the key of a label: "+msg))
			}
		}
		errs = append(errs, planCheckLimit(at.Child("maxConcurrency"), d.MaxConcurrency, 1)...)
	}
	return errs
}

// planValue is the value of a label, if it is there.
type planValue struct {
	absent bool
	value  string
}

func comparePlanValues(a, b planValue) int {
	switch {
	case a.absent == b.absent:
		return cmp.Compare(a.value, b.value)
	case b.absent:
		return -1
	default:
		return 1
	}
}

// divide divides the clusters of a stage, which are the last of the plan, into
// its failure domains.
func (b *planner) divide(st *planStage, out *PlannedStage) {
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

// members are the clusters of a stage in the order of the plan, as indexes into
// b.clusters.
func (b *planner) members(st *planStage) (out []int) {
	for i := range st.parts {
		for _, e := range st.parts[i].entries {
			out = append(out, e.at)
		}
	}
	return out
}

// divideBy adds the domains of one label, and each cluster's to its tuple.
func (b *planner) divideBy(d *Domain, nth int, members []int, tuples [][]int, out *PlannedStage) {
	clusters := map[planValue]int{}
	var without []string
	value := func(i int) planValue {
		v, ok := b.clusters[members[i]].Labels[d.Key]
		return planValue{!ok, v}
	}
	for i, at := range members {
		v := value(i)
		clusters[v]++
		if v.absent {
			without = append(without, b.clusters[at].Name)
		}
	}
	if len(clusters) > maxDomains {
		b.errs = append(b.errs, field.Invalid(b.stagePath(out.Name).Child("domains").Index(nth).Child("key"), d.Key,
			fmt.Sprintf("has %d values among the clusters of the stage, and may have %d: it must be a label that many clusters share", len(clusters), maxDomains)))
	}
	if len(without) > 0 {
		b.warn("clusters of stage %s without the label %s are a failure domain of their own: %s", out.Name, d.Key, planSome(without))
	}
	index := map[planValue]int{}
	for _, v := range slices.SortedFunc(maps.Keys(clusters), comparePlanValues) {
		index[v] = len(out.Domains)
		n := clusters[v]
		out.Domains = append(out.Domains, PlannedDomain{
			Key: d.Key, Value: v.value, Absent: v.absent, Clusters: n, MaxConcurrency: planConcurrency(d.MaxConcurrency, n, 1),
		})
	}
	for i := range members {
		tuples[i] = append(tuples[i], index[value(i)])
	}
}

// stagePath is where the stage of that name stands in the strategy.
func (b *planner) stagePath(name string) *field.Path {
	i := slices.IndexFunc(b.plan.Strategy.Stages, func(st Stage) bool { return st.Name == name })
	return field.NewPath("strategy", "stages").Index(i)
}

// checkCells refuses a stage that is divided into too many parts.
func (b *planner) checkCells(out *PlannedStage) {
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

// checkDomains checks the failure domains of a stored stage, and the cells of its
// clusters.
func (p *Plan) checkDomains(st *PlannedStage) error {
	if (len(st.Cells) > 0) != (len(st.Domains) > 0) {
		return fmt.Errorf("%d domains and %d cells are impossible", len(st.Domains), len(st.Cells))
	}
	if len(st.Domains) == 0 {
		return p.checkUndivided(st)
	}
	keys, err := planDomainKeys(st.Domains)
	if err != nil {
		return err
	}
	for i, cell := range st.Cells {
		ascends := i == 0 || slices.Compare(st.Cells[i-1], cell) < 0
		if len(cell) != len(keys) || !ascends {
			return fmt.Errorf("cells[%d] is impossible", i)
		}
		for j, d := range cell {
			if d < 0 || d >= len(st.Domains) || st.Domains[d].Key != keys[j] {
				return fmt.Errorf("cells[%d]: domain %d is impossible", i, d)
			}
		}
	}
	return p.checkDivided(st)
}

// planDomainKeys returns the labels of the domains, which stand together, those of
// each in order of their values.
func planDomainKeys(domains []PlannedDomain) (keys []string, err error) {
	for i, d := range domains {
		before := PlannedDomain{}
		if i > 0 {
			before = domains[i-1]
		}
		same := i > 0 && before.Key == d.Key
		switch {
		case d.MaxConcurrency < 1 || d.Clusters < 1 || d.Absent && d.Value != "" || len(validation.IsQualifiedName(d.Key)) > 0:
		case same && comparePlanValues(planValue{before.Absent, before.Value}, planValue{d.Absent, d.Value}) >= 0:
		case !same && slices.Contains(keys, d.Key):
		default:
			if !same {
				keys = append(keys, d.Key)
			}
			continue
		}
		return nil, fmt.Errorf("domains[%d] %s is impossible here", i, d)
	}
	return keys, nil
}

func (p *Plan) checkUndivided(st *PlannedStage) error {
	for _, g := range st.Groups {
		for pos := g.First; pos < g.First+g.Len; pos++ {
			if p.Clusters[pos].Cell != 0 {
				return fmt.Errorf("cluster %d: cell %d is impossible", pos, p.Clusters[pos].Cell)
			}
		}
	}
	return nil
}

// checkDivided checks that the domains have as many clusters as they say, or fewer
// in a plan that takes back what a run brought to some.
func (p *Plan) checkDivided(st *PlannedStage) error {
	sizes := make([]int, len(st.Domains))
	for _, g := range st.Groups {
		for pos := g.First; pos < g.First+g.Len; pos++ {
			cell := p.Clusters[pos].Cell
			if cell < 0 || cell >= len(st.Cells) {
				return fmt.Errorf("cluster %d: cell %d is impossible", pos, cell)
			}
			for _, d := range st.Cells[cell] {
				sizes[d]++
			}
		}
	}
	for i, d := range st.Domains {
		if sizes[i] > d.Clusters || sizes[i] < d.Clusters && p.Rollback == nil {
			return fmt.Errorf("domains[%d] %s says that it has %d clusters, and has %d", i, d, d.Clusters, sizes[i])
		}
	}
	return nil
}
