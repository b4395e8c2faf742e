package inverse

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// inverseStrategy returns the strategy of a rollback plan: the stages in reverse order, without
// tasks and checks.
func inverseStrategy(s stages.Strategy) stages.Strategy {
	s.Rollback = nil
	s.Stages = slices.DeleteFunc(slices.Clone(s.Stages), func(st stages.Stage) bool { return st.Pause })
	slices.Reverse(s.Stages)
	for i := range s.Stages {
		st := &s.Stages[i]
		st.Before, st.After, st.Flow = nil, nil, stages.Flow{Timeout: st.Timeout}
		st.Take, st.Rest = nil, false // the clusters are known already
		st.Checks, st.ClusterChecks = nil, nil
		st.Groups = slices.DeleteFunc(slices.Clone(st.Groups), func(g stages.Group) bool { return g.Pause })
		for j := range st.Groups {
			g := &st.Groups[j]
			g.Before, g.After, g.DependsOn, g.New, g.Flow = nil, nil, nil, false, stages.Flow{Timeout: g.Timeout}
		}
	}
	s.Removal.Before, s.Removal.After = nil, nil
	return s
}

// Reversal is the treatment of each cluster when a run is rolled back.
type Reversal struct {
	// Run and UID are the run's.
	Run, UID string
	// To contains the earlier content of the clusters that go back, by position.
	To map[int]Earlier
	// Kept contains, by reason, the names of the clusters that the run may have changed and that the
	// rollback does not change.
	Kept map[string][]string
}

// Earlier is the content of a cluster before a run: the snapshot, and the digest of its objects
// after overrides. Without a Revision the cluster had nothing, and the rollback cleans it.
type Earlier struct {
	Index    int
	Snapshot string
	Revision string
}

// Reverse returns the rollback plan in reverse order: the last stage comes first, and in it the
// last cluster. Clusters to be cleaned are in separate stages. The strategy of the plan must have
// a rollback.
func Reverse(p *stages.Plan, r Reversal) (*stages.Plan, error) {
	b := &inverter{from: p, Reversal: r}
	b.plan = &stages.Plan{
		Strategy: inverseStrategy(p.Strategy), Placement: p.Placement, Index: p.Index, Snapshot: p.Snapshot, Selection: p.Selection,
		Rollback: &stages.PlannedRollback{Run: r.Run, UID: r.UID, Plan: p.Digest},
	}
	b.invert()
	byName := values.NameOrder(len(b.plan.Clusters), func(i int) string { return b.plan.Clusters[i].Name })
	if err := b.plan.SealSorted(byName); err != nil {
		return nil, err
	}
	return b.plan, nil
}

// inverter is a rollback plan under construction.
type inverter struct {
	from *stages.Plan
	Reversal
	// back and clean contain the positions of the clusters that go back and of the clusters that are
	// cleaned.
	back, clean map[int]bool
	plan        *stages.Plan
}

// target determines the revisions that clusters go back to, and the newest of their snapshots.
func (b *inverter) target() {
	b.back, b.clean = map[int]bool{}, map[int]bool{}
	indexes, newest := map[string]int{}, -1
	for pos, to := range b.To {
		if to.Revision == "" {
			b.clean[pos] = true
			continue
		}
		b.back[pos] = true
		indexes[to.Revision] = max(to.Index, indexes[to.Revision])
		if to.Index > newest {
			newest, b.plan.Index, b.plan.Snapshot = to.Index, to.Index, to.Snapshot
		}
	}
	for _, digest := range slices.Sorted(maps.Keys(indexes)) {
		b.plan.Revisions = append(b.plan.Revisions, digest)
		b.plan.Rollback.Indexes = append(b.plan.Rollback.Indexes, indexes[digest])
	}
}

// invert adds the stages and clusters of the rollback, and the names of the clusters that it
// keeps.
func (b *inverter) invert() {
	b.target()
	for i := range slices.Backward(b.from.Stages) {
		st := &b.from.Stages[i]
		b.stage(st, st.Name, b.back)
		b.stage(st, b.cleanName(st.Name), b.clean)
	}
	if a := b.from.Strategy.Rollback.Approval; a != nil && len(b.plan.Stages) > 0 {
		b.plan.Stages[0].Gates = []stages.PlannedGate{{When: approval.Before, Type: stages.Approval, Policy: *a}}
	}
	for why, names := range b.Kept {
		slices.Sort(names)
		b.plan.Rollback.Kept = append(b.plan.Rollback.Kept, stages.KeptClusters{Reason: why, Count: len(names), Clusters: names[:min(len(names), maxKept)]})
	}
	slices.SortFunc(b.plan.Rollback.Kept, func(a, b stages.KeptClusters) int { return cmp.Compare(a.Reason, b.Reason) })
}

// stage adds the given positions of a stage to the plan, if there are any.
func (b *inverter) stage(from *stages.PlannedStage, name string, here map[int]bool) {
	out, first := *from, len(b.plan.Clusters)
	out.Name, out.Groups, out.Gates, out.Flow = name, nil, nil, stages.Flow{Timeout: from.Timeout}
	out.Checks, out.ClusterChecks = nil, nil
	var places []int
	for i, g := range from.Groups {
		at := len(b.plan.Clusters)
		for pos := g.First + g.Len - 1; pos >= g.First; pos-- {
			if here[pos] {
				b.plan.Clusters = append(b.plan.Clusters, b.cluster(pos))
			}
		}
		g.First, g.Len, g.Unproven, g.New, g.Gates, g.After, g.Flow = at, len(b.plan.Clusters)-at, 0, false, nil, nil, stages.Flow{Timeout: g.Timeout}
		if g.Len > 0 {
			out.Groups, places = append(out.Groups, g), append(places, i)
		}
	}
	reverseOrder(&out, from, places)
	if len(b.plan.Clusters) == first {
		return
	}
	if b.plan.Clusters[first].Revision < 0 {
		makeRemoval(&out)
	}
	b.plan.Stages = append(b.plan.Stages, out)
}

// reverseOrder reverses the order of groups: a group waits for the groups that waited for it,
// directly or through groups that the plan no longer has. places contains their indexes in from.
func reverseOrder(s, from *stages.PlannedStage, places []int) {
	for i, g := range places {
		for j, other := range places {
			if waitsFor(from, other, g) {
				s.Groups[i].After = append(s.Groups[i].After, j)
			}
		}
	}
}

// waitsFor reports whether a group starts after another group, directly or through other groups.
func waitsFor(s *stages.PlannedStage, group, other int) bool {
	return slices.ContainsFunc(s.Groups[group].After, func(i int) bool { return i == other || waitsFor(s, i, other) })
}

// makeRemoval turns the stage into a removal stage: it skips clusters that cannot be cleaned, so
// that no cluster fails.
func makeRemoval(s *stages.PlannedStage) {
	s.Remove, s.MaxFailures, s.Strict, s.Flow = true, -1, false, stages.Flow{}
	for i := range s.Groups {
		g := &s.Groups[i]
		g.MaxFailures, g.Strict, g.Flow, g.After = -1, false, stages.Flow{}, nil
	}
}

// cluster returns the planned cluster of the rollback at a position.
func (b *inverter) cluster(pos int) stages.PlannedCluster {
	c := b.from.Clusters[pos]
	c.Revision = -1
	if b.back[pos] {
		c.Revision, _ = slices.BinarySearch(b.plan.Revisions, b.To[pos].Revision)
	}
	return c
}

// cleanName returns the name of the stage that cleans the clusters of the given stage that had
// nothing before.
func (b *inverter) cleanName(stage string) string {
	const suffix = "-" + stages.RemovalStageName
	name := stage[:min(len(stage), validation.DNS1123LabelMaxLength-len(suffix))] + suffix
	for n := 2; b.from.StageIndex(name) >= 0 || b.plan.StageIndex(name) >= 0; n++ {
		more := suffix + strconv.Itoa(n)
		name = stage[:min(len(stage), validation.DNS1123LabelMaxLength-len(more))] + more
	}
	return name
}

// maxKept is the maximum number of named clusters for one reason in Kept.
const maxKept = 500
