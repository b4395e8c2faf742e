package stages

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
)

// resolve turns what was assigned into the stages, numbers and clusters of the
// plan.
func (b *planner) resolve() {
	b.plan.Clusters = make([]PlannedCluster, 0, len(b.clusters)+len(b.target.Remove))
	b.positions = slices.Repeat([]int32{-1}, len(b.clusters))
	for _, st := range b.stages {
		b.resolveStage(st)
	}
	b.fill()
	b.removal()
	s := &b.plan.Strategy
	if s.ProgressDeadline > 0 && s.MinHealthy >= s.ProgressDeadline {
		b.warn("minHealthy %s is not less than progressDeadline %s: every cluster that changes fails", s.MinHealthy, s.ProgressDeadline)
	}
	b.plan.Warnings = b.warnings
}

func (b *planner) resolveStage(st *planStage) {
	first := len(b.plan.Clusters)
	out := PlannedStage{
		Name: st.stage.Name, Strict: st.stage.StrictFailures, Gates: planGates(st.stage.Before, st.stage.After),
		Flow: st.stage.Flow,
	}
	for i := range st.parts {
		part := &st.parts[i]
		n := len(part.entries)
		out.Groups = append(out.Groups, PlannedGroup{
			Name: part.group.Name, First: len(b.plan.Clusters), Len: n,
			MaxConcurrency: planConcurrency(part.group.MaxConcurrency, n, 1),
			MaxFailures:    planFailures(part.group.MaxFailures, n, -1),
			Strict:         part.group.StrictFailures,
			Gates:          planGates(part.group.Before, part.group.After),
			After:          planAfter(st.stage.Groups, part.group.DependsOn),
			Flow:           part.group.Flow,
		})
		b.place(part)
	}
	size := len(b.plan.Clusters) - first
	unset := 0
	if len(st.stage.Groups) == 0 {
		unset = 1
	}
	out.MaxConcurrency = planConcurrency(st.stage.MaxConcurrency, size, unset)
	out.MaxFailures = planFailures(st.stage.MaxFailures, size, 0)
	b.divide(st, &out)
	b.plan.Stages = append(b.plan.Stages, out)
	b.doubt(&out, size)
}

// checkSizes refuses caps of groups that cannot be meant in profile
// ClusterUpdate.
func (b *planner) checkSizes(at *field.Path) {
	s := &b.plan.Strategy
	if s.Profile != ClusterUpdate || b.target.Part {
		return
	}
	for i := range s.Stages {
		for j := range s.Stages[i].Groups {
			at := at.Index(i).Child("groups").Index(j).Child("maxConcurrency")
			b.checkSize(at, s.Stages[i].Groups[j].MaxConcurrency, &b.plan.Stages[i], j)
		}
	}
}

func (b *planner) checkSize(at *field.Path, v *intstr.IntOrString, st *PlannedStage, group int) {
	if v == nil || v.Type != intstr.Int {
		return
	}
	n, size := int(v.IntVal), st.Groups[group].Len
	if size > 0 && n > size {
		b.errs = append(b.errs, field.Invalid(at, n, fmt.Sprintf("must not be greater than the number of the group's clusters, %d", size)))
	}
	if st.MaxConcurrency > 0 && n > st.MaxConcurrency {
		b.errs = append(b.errs, field.Invalid(at, n, fmt.Sprintf("must not be greater than maxConcurrency of the stage, %d", st.MaxConcurrency)))
	}
}

// place gives the clusters of a part the next positions of the plan, which fill
// fills.
func (b *planner) place(part *planPart) {
	first := len(b.plan.Clusters)
	for i, e := range part.entries {
		b.positions[e.at] = int32(first + i)
	}
	b.plan.Clusters = b.plan.Clusters[:first+len(part.entries)]
}

// doubt warns about what a stage probably does not mean.
func (b *planner) doubt(st *PlannedStage, size int) {
	if size == 0 {
		if !st.pauses() {
			b.warn("stage %s has no clusters", st.Name)
		}
		return
	}
	b.doubtFailures(planWhere(st.Name, ""), st.MaxFailures, size)
	for _, g := range st.Groups {
		if g.Pause {
			continue
		}
		if g.Len == 0 {
			b.warn("%s has no clusters", planWhere(st.Name, g.Name))
			continue
		}
		b.doubtFailures(planWhere(st.Name, g.Name), g.MaxFailures, g.Len)
	}
}

func (b *planner) doubtFailures(where string, failures, size int) {
	if failures >= size {
		b.warn("%s never fails: maxFailures allows %d and it has %d clusters", where, failures, size)
	}
}

// removal adds the stage that cleans the clusters that left.
func (b *planner) removal() {
	names := planKeys(b.target.Remove)
	if len(names) == 0 {
		return
	}
	r := &b.plan.Strategy.Removal
	limit := planConcurrency(r.MaxConcurrency, len(names), 1)
	b.plan.Stages = append(b.plan.Stages, PlannedStage{
		Name: RemovalStageName, Remove: true, MaxConcurrency: limit, MaxFailures: -1,
		Groups: []PlannedGroup{{First: len(b.plan.Clusters), Len: len(names), MaxConcurrency: limit, MaxFailures: -1}},
		Gates:  planGates(r.Before, r.After),
	})
	for _, name := range names {
		b.plan.Clusters = append(b.plan.Clusters, PlannedCluster{Name: name, UID: b.target.Remove[name], Revision: -1})
	}
}

func planGates(before, after []Task) []PlannedGate {
	var gates []PlannedGate
	for _, t := range before {
		gates = append(gates, t.gate(approval.Before))
	}
	for _, t := range after {
		gates = append(gates, t.gate(approval.After))
	}
	return gates
}

func (t Task) gate(when approval.When) PlannedGate {
	g := PlannedGate{When: when, Type: t.Type, Wait: t.Wait, Schedule: t.Schedule}
	if t.Approval != nil {
		g.Policy = *t.Approval
	}
	return g
}

// planConcurrency resolves a valid limit over size clusters: a percentage is
// rounded down, but is at least 1.
func planConcurrency(v *intstr.IntOrString, size, unset int) int {
	if v == nil {
		return unset
	}
	n, percent, _ := planLimit(*v, 1)
	if percent {
		return max(1, size*n/100)
	}
	return n
}

// planFailures resolves a valid budget over size clusters: a percentage is
// rounded up.
func planFailures(v *intstr.IntOrString, size, unset int) int {
	if v == nil {
		return unset
	}
	n, percent, _ := planLimit(*v, 0)
	if percent {
		return (size*n + 99) / 100
	}
	return n
}

// fill puts the clusters of the stages at their positions, in the order of their
// names, in which they lie in memory.
func (b *planner) fill() {
	b.settle()
	planSplit(len(b.clusters), func(piece, from, to int) {
		index := b.revisionIndex(piece)
		for i := from; i < to; i++ {
			if position := b.positions[i]; position >= 0 {
				c, planned := &b.clusters[i], &b.plan.Clusters[position]
				planned.Name, planned.UID, planned.Revision = c.Name, c.UID, index[c.revision]
			}
		}
	})
}

// settle gives the plan the digests that clusters of the stages get, ascending.
func (b *planner) settle() {
	used := make([][]string, len(b.revisions))
	planSplit(len(b.clusters), func(piece, from, to int) { used[piece] = b.used(piece, from, to) })
	b.plan.Revisions = slices.Compact(slices.Sorted(slices.Values(slices.Concat(used...))))
}

// used returns the digests that clusters of a piece get.
func (b *planner) used(piece, from, to int) (out []string) {
	digests := b.revisions[piece].digests
	gets := make([]bool, len(digests))
	for i := from; i < to; i++ {
		if b.positions[i] >= 0 {
			gets[b.clusters[i].revision] = true
		}
	}
	for id, digest := range digests {
		if gets[id] {
			out = append(out, digest)
		}
	}
	return out
}

// revisionIndex returns what becomes of the numbers of a piece's revisions: indexes
// into Plan.Revisions.
func (b *planner) revisionIndex(piece int) []int {
	digests := b.revisions[piece].digests
	index := make([]int, len(digests))
	for id, digest := range digests {
		index[id], _ = slices.BinarySearch(b.plan.Revisions, digest)
	}
	return index
}
