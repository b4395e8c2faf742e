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

// inverseStrategy is that of a plan that rolls back: stages in the reverse order,
// without tasks and checks.
func inverseStrategy(s stages.Strategy) stages.Strategy {
	s.Rollback = nil
	s.Stages = slices.DeleteFunc(slices.Clone(s.Stages), func(st stages.Stage) bool { return st.Pause })
	slices.Reverse(s.Stages)
	for i := range s.Stages {
		st := &s.Stages[i]
		st.Before, st.After, st.Flow = nil, nil, stages.Flow{Timeout: st.Timeout}
		st.Take, st.Rest = nil, false // which clusters these are is known
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

// Reversal is what becomes of the clusters of a plan whose run is rolled back.
type Reversal struct {
	// Run and UID are the run's.
	Run, UID string
	// To has what clusters go back to, by their positions.
	To map[int]Earlier
	// Kept has the names of the clusters that the run may have changed and that stay as
	// they are, by the reason.
	Kept map[string][]string
}

// Earlier is what a cluster had before a run: the snapshot, and the digest of what it
// got of that, after overrides. Without a Revision it had nothing, and is cleaned.
type Earlier struct {
	Index    int
	Snapshot string
	Revision string
}

// Reverse returns the plan by which clusters go back, in the reverse order: the last
// stage comes first and in it the last cluster. Clusters to be cleaned are in stages of
// their own. The plan must have a rollback in its strategy.
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

// inverter is a plan that rolls back under construction.
type inverter struct {
	from *stages.Plan
	Reversal
	// back and clean are the positions of the clusters that go back and that are cleaned.
	back, clean map[int]bool
	plan        *stages.Plan
}

// target finds the revisions that clusters go back to, and the newest snapshot of them.
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

// invert lays out what is to be done, and names what stays.
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

// stage adds what is to be done at some positions of a stage, if there are any.
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
		g.First, g.Len, g.New, g.Gates, g.After, g.Flow = at, len(b.plan.Clusters)-at, false, nil, nil, stages.Flow{Timeout: g.Timeout}
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

// reverseOrder makes groups wait for those that waited for them, also by way of
// groups that are not there any more. places are their indexes in from.
func reverseOrder(s, from *stages.PlannedStage, places []int) {
	for i, g := range places {
		for j, other := range places {
			if waitsFor(from, other, g) {
				s.Groups[i].After = append(s.Groups[i].After, j)
			}
		}
	}
}

// waitsFor reports whether a group begins after another one, or after one that does.
func waitsFor(s *stages.PlannedStage, group, other int) bool {
	return slices.ContainsFunc(s.Groups[group].After, func(i int) bool { return i == other || waitsFor(s, i, other) })
}

// makeRemoval makes the stage one that cleans: what cannot be cleaned is skipped,
// so that nothing fails.
func makeRemoval(s *stages.PlannedStage) {
	s.Remove, s.MaxFailures, s.Strict, s.Flow = true, -1, false, stages.Flow{}
	for i := range s.Groups {
		g := &s.Groups[i]
		g.MaxFailures, g.Strict, g.Flow, g.After = -1, false, stages.Flow{}, nil
	}
}

// cluster is what is to be done at a position.
func (b *inverter) cluster(pos int) stages.PlannedCluster {
	c := b.from.Clusters[pos]
	c.Revision = -1
	if b.back[pos] {
		c.Revision, _ = slices.BinarySearch(b.plan.Revisions, b.To[pos].Revision)
	}
	return c
}

// cleanName is the name of the stage that cleans the clusters of a stage which
// had nothing before.
func (b *inverter) cleanName(stage string) string {
	const suffix = "-" + stages.RemovalStageName
	name := stage[:min(len(stage), validation.DNS1123LabelMaxLength-len(suffix))] + suffix
	for n := 2; b.from.StageIndex(name) >= 0 || b.plan.StageIndex(name) >= 0; n++ {
		more := suffix + strconv.Itoa(n)
		name = stage[:min(len(stage), validation.DNS1123LabelMaxLength-len(more))] + more
	}
	return name
}

// maxKept is how many clusters are named that stay as they are for one reason.
const maxKept = 500
