package planner

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// resolve turns the assignment into the stages, numbers and clusters of the plan.
func (b *planner) resolve() {
	b.plan.Clusters = make([]stages.PlannedCluster, 0, len(b.clusters)+len(b.target.Remove))
	for _, st := range b.stages {
		b.resolveStage(st)
	}
	b.sortRevisions()
	b.removal()
	s := &b.plan.Strategy
	if s.ProgressDeadline.Duration > 0 && s.MinHealthy.Duration >= s.ProgressDeadline.Duration {
		b.warn("minHealthy %s is not less than progressDeadline %s: every cluster that changes fails", s.MinHealthy.Duration, s.ProgressDeadline.Duration)
	}
	warner{b}.warnOfBudgets()
	warner{b}.warnOfSerialStages()
	b.plan.Warnings = b.warnings
}

func (b *planner) resolveStage(st *openStage) {
	first := len(b.plan.Clusters)
	out := stages.PlannedStage{
		Name: st.stage.Name, Strict: st.stage.StrictFailures, Gates: gatesOf(st.stage.Before, st.stage.After),
		Checks: st.stage.Checks, ClusterChecks: st.stage.ClusterChecks, Flow: st.stage.Flow,
	}
	positions := values.PositionsOf(groupNames(st.stage.Groups))
	for i := range st.parts {
		part := &st.parts[i]
		n := len(part.entries)
		out.Groups = append(out.Groups, stages.PlannedGroup{
			Name: part.group.Name, First: len(b.plan.Clusters), Len: n, Unproven: part.unproven, New: part.group.New,
			MaxConcurrency: values.ResolveConcurrency(part.group.MaxConcurrency, n, 1),
			MaxFailures:    values.ResolveFailures(part.group.MaxFailures, n, -1),
			Strict:         part.group.StrictFailures,
			Gates:          gatesOf(part.group.Before, part.group.After),
			After:          positions.Of(part.group.DependsOn),
			Flow:           part.group.Flow,
		})
		b.place(part)
	}
	size := len(b.plan.Clusters) - first
	unset := 0
	if len(st.stage.Groups) == 0 {
		unset = 1
	}
	out.MaxConcurrency = values.ResolveConcurrency(st.stage.MaxConcurrency, size, unset)
	out.MaxFailures = values.ResolveFailures(st.stage.MaxFailures, size, 0)
	b.divide(st, &out)
	b.plan.Stages = append(b.plan.Stages, out)
	warner{b}.stage(st, &out, size)
}

// checkSizes refuses caps of groups that make no sense in profile ClusterUpdate.
func (b *planner) checkSizes(at *field.Path) {
	s := &b.plan.Strategy
	if s.Profile != stages.ClusterUpdate || b.target.Part {
		return
	}
	for i := range s.Stages {
		for j := range s.Stages[i].Groups {
			at := at.Index(i).Child("groups").Index(j).Child("maxConcurrency")
			b.checkSize(at, s.Stages[i].Groups[j].MaxConcurrency, &b.plan.Stages[i], j)
		}
	}
}

func (b *planner) checkSize(at *field.Path, v *intstr.IntOrString, st *stages.PlannedStage, group int) {
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

// place gives the clusters of a part the next positions of the plan.
func (b *planner) place(part *part) {
	for _, e := range part.entries {
		c := &b.clusters[e.cluster]
		c.position = int32(len(b.plan.Clusters))
		b.plan.Clusters = append(b.plan.Clusters, stages.PlannedCluster{Name: c.Name, UID: c.UID, Revision: int(c.revision)})
	}
}

// sortRevisions gives the plan the digests of its clusters, ascending, and the clusters their
// indexes.
func (b *planner) sortRevisions() {
	used := make([]bool, len(b.revisions))
	for i := range b.plan.Clusters {
		used[b.plan.Clusters[i].Revision] = true
	}
	for id, digest := range b.revisions {
		if used[id] {
			b.plan.Revisions = append(b.plan.Revisions, digest)
		}
	}
	slices.Sort(b.plan.Revisions)
	index := make([]int, len(b.revisions))
	for id, digest := range b.revisions {
		index[id], _ = slices.BinarySearch(b.plan.Revisions, digest)
	}
	for i := range b.plan.Clusters {
		c := &b.plan.Clusters[i]
		c.Revision = index[c.Revision]
	}
}

// stage warns about settings of a stage that are probably mistakes.
func (b warner) stage(open *openStage, st *stages.PlannedStage, size int) {
	switch {
	case size > 0:
	case st.Pauses():
		return
	case isShare(&open.stage):
		b.warn("stage %s has no clusters: none is left for it", st.Name)
		return
	default:
		b.warn("stage %s has no clusters", st.Name)
		return
	}
	b.failures(whereOf(st.Name, ""), st.MaxFailures, size)
	for _, g := range st.Groups {
		if g.Pause {
			continue
		}
		if g.Len == 0 && slices.ContainsFunc(st.Groups, func(g stages.PlannedGroup) bool { return g.New }) {
			continue // no new clusters, or only new ones, are normal
		}
		if g.Len == 0 {
			b.warn("%s has no clusters", whereOf(st.Name, g.Name))
			continue
		}
		b.failures(whereOf(st.Name, g.Name), g.MaxFailures, g.Len)
	}
}

func (b warner) failures(where string, failures, size int) {
	if failures >= size {
		b.warn("%s never fails: maxFailures allows %d and it has %s", where, failures, clusterCount(size))
	}
}

// removal adds the stage that cleans clusters that left.
func (b *planner) removal() {
	names := sortedKeys(b.target.Remove)
	if len(names) == 0 {
		return
	}
	r := &b.plan.Strategy.Removal
	limit := values.ResolveConcurrency(r.MaxConcurrency, len(names), 1)
	b.plan.Stages = append(b.plan.Stages, stages.PlannedStage{
		Name: stages.RemovalStageName, Remove: true, MaxConcurrency: limit, MaxFailures: -1,
		Groups: []stages.PlannedGroup{{First: len(b.plan.Clusters), Len: len(names), MaxConcurrency: limit, MaxFailures: -1}},
		Gates:  gatesOf(r.Before, r.After),
	})
	for _, name := range names {
		b.plan.Clusters = append(b.plan.Clusters, stages.PlannedCluster{Name: name, UID: b.target.Remove[name], Revision: -1})
	}
}

// byName returns the positions of the plan's clusters by name. It merges two ordered lists: the
// clusters of the planner, and the clusters in the removal stage, which have the last positions.
func (b *planner) byName() values.Order {
	byName := make(values.Order, 0, len(b.plan.Clusters))
	end := int32(len(b.plan.Clusters))
	removed := end - int32(len(b.target.Remove))
	for i := range b.clusters {
		c := &b.clusters[i]
		for ; removed < end && b.plan.Clusters[removed].Name < c.Name; removed++ {
			byName = append(byName, removed)
		}
		if c.position >= 0 {
			byName = append(byName, c.position)
		}
	}
	for ; removed < end; removed++ {
		byName = append(byName, removed)
	}
	return byName
}

func gatesOf(before, after []stages.Task) []stages.PlannedGate {
	var gates []stages.PlannedGate
	for _, t := range before {
		gates = append(gates, gateOf(t, approval.Before))
	}
	for _, t := range after {
		gates = append(gates, gateOf(t, approval.After))
	}
	return gates
}

func gateOf(t stages.Task, when approval.When) stages.PlannedGate {
	g := stages.PlannedGate{When: when, Type: t.Type, Wait: t.Wait, Schedule: t.Schedule, Checks: t.Checks}
	if t.Approval != nil {
		g.Policy = *t.Approval
	}
	return g
}

func groupNames(groups []stages.Group) []string {
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	return names
}
