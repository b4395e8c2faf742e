package stages

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/approval"
)

// Previous is what a cluster had of a placement before a run.
type Previous struct {
	// Index and Snapshot are the index and the digest of the snapshot which the
	// cluster was proven to have, Revision is the digest of what it got of that,
	// after overrides. An empty Revision means that it had nothing.
	Index    int
	Snapshot string
	Revision string
	// Keep, where not empty, is why the cluster stays as it is.
	Keep string
	// Back tells that the cluster has it again.
	Back bool
}

// RollBack returns the plan that takes back what the run r of the plan p brought:
// every cluster that the run may have changed goes to what it had before, by its
// name; nothing where previous does not name it. The plan has no cluster where
// there is nothing to be taken back.
//
// The last stage comes first and in it the last cluster, with the numbers of p:
// caps, budgets, and what the strategy says of attempts, deadlines and health. Of
// its gates there is one, before the first stage, where the strategy's Rollback
// asks for approval. Clusters that had nothing are cleaned where Rollback says so,
// each group of them in a stage of its own behind the stage that they were in.
// Clusters that p cleaned because they left the placement stay clean. The plan
// takes nothing back itself.
func RollBack(p *Plan, r *Run, previous map[string]Previous) (*Plan, error) {
	if p.Rollback != nil {
		return nil, fmt.Errorf("run %s takes back what run %s brought, and is not taken back itself: roll out the snapshot that is to be there", r.Name, p.Rollback.Run)
	}
	if p.Strategy.Rollback == nil {
		return nil, fmt.Errorf("run %s: %s", r.Name, noRollback)
	}
	b := &inverter{from: p, policy: p.Strategy.Rollback, previous: previous, kept: map[string][]string{}, indexes: map[string]int{}}
	b.plan = &Plan{
		Strategy: inverseStrategy(p.Strategy), Placement: p.Placement, Index: p.Index, Snapshot: p.Snapshot, Decision: p.Decision,
		Rollback: &PlannedRollback{Run: r.Name, UID: r.UID, Plan: p.Digest},
	}
	b.sort(r)
	b.invert()
	b.plan.index()
	b.plan.indexDomains()
	return b.plan, b.plan.seal()
}

// Touched counts the clusters that a run may have changed.
func Touched(p *Plan, r *Run) (n int) {
	for pos, state := range States(p, r) {
		if r.touched(pos, state) {
			n++
		}
	}
	return n
}

// touched tells whether the run may have changed the cluster at pos.
func (r *Run) touched(pos int, state State) bool {
	switch state {
	case Completed, Failed:
		return true
	case Skipped:
		return exceptionAt(r.Exceptions, pos).Sent
	case Running:
		return slices.ContainsFunc(r.Flights, func(f Flight) bool { return f.Attempt != 0 && f.Pos == pos && f.Sent })
	case Pending:
		return slices.ContainsFunc(r.Waiting, func(y Yielded) bool { return y.Pos == pos && y.Sent })
	default:
		return false
	}
}

// inverseStrategy is that of a plan that takes back: stages in the reverse order,
// without tasks.
func inverseStrategy(s Strategy) Strategy {
	s.Rollback = nil
	s.Stages = slices.DeleteFunc(slices.Clone(s.Stages), func(st Stage) bool { return st.Pause })
	slices.Reverse(s.Stages)
	for i := range s.Stages {
		st := &s.Stages[i]
		st.Before, st.After, st.Flow = nil, nil, Flow{Timeout: st.Timeout}
		st.Groups = slices.DeleteFunc(slices.Clone(st.Groups), func(g Group) bool { return g.Pause })
		for j := range st.Groups {
			g := &st.Groups[j]
			g.Before, g.After, g.DependsOn, g.Flow = nil, nil, nil, Flow{Timeout: g.Timeout}
		}
	}
	s.Removal.Before, s.Removal.After = nil, nil
	return s
}

// inverter is a plan that takes back under construction.
type inverter struct {
	from     *Plan
	policy   *Rollback
	previous map[string]Previous
	// back and clean are what is to be done at the positions of from.
	back, clean map[int]bool
	// indexes has the snapshot of every revision that a cluster goes back to.
	indexes map[string]int
	kept    map[string][]string
	plan    *Plan
}

// sort says what becomes of each cluster that the run may have changed.
func (b *inverter) sort(r *Run) {
	b.back, b.clean = map[int]bool{}, map[int]bool{}
	newest := -1
	for pos, state := range States(b.from, r) {
		c := &b.from.Clusters[pos]
		before := b.previous[c.Name]
		if !r.touched(pos, state) || before.Back {
			continue
		}
		switch why := b.keep(r, pos, state, before); {
		case why == same:
		case why != "":
			b.kept[why] = append(b.kept[why], c.Name)
		case before.Revision == "":
			b.clean[pos] = true
		default:
			b.back[pos] = true
			b.indexes[before.Revision] = max(before.Index, b.indexes[before.Revision])
			if before.Index > newest {
				newest, b.plan.Index, b.plan.Snapshot = before.Index, before.Index, before.Snapshot
			}
		}
	}
}

// same is the reason of clusters to which the run brought what they had.
const same = "same"

// keep says why the cluster at pos stays as it is, or "".
func (b *inverter) keep(r *Run, pos int, state State, before Previous) string {
	c := &b.from.Clusters[pos]
	x := exceptionAt(r.Exceptions, pos)
	switch {
	case x != nil && x.Gone:
		return hasLeft
	case c.Revision < 0:
		return "the cluster left the placement and was cleaned, and stays so"
	case b.from.Revisions[c.Revision] == before.Revision && state == Completed:
		return same
	case before.Keep != "":
		return before.Keep
	case before.Revision == "" && b.policy.New == LeaveNew:
		return "the cluster had nothing before, and newClusters is " + string(LeaveNew)
	default:
		return ""
	}
}

// invert lays out what is to be done, and names what stays.
func (b *inverter) invert() {
	for digest := range b.indexes {
		b.plan.Revisions = append(b.plan.Revisions, digest)
	}
	slices.Sort(b.plan.Revisions)
	for _, digest := range b.plan.Revisions {
		b.plan.Rollback.Indexes = append(b.plan.Rollback.Indexes, b.indexes[digest])
	}
	for i := range slices.Backward(b.from.Stages) {
		st := &b.from.Stages[i]
		b.stage(st, st.Name, b.back)
		b.stage(st, b.cleanName(st.Name), b.clean)
	}
	if a := b.policy.Approval; a != nil && len(b.plan.Stages) > 0 {
		b.plan.Stages[0].Gates = []PlannedGate{{When: approval.Before, Type: Approval, Policy: *a}}
	}
	for why, names := range b.kept {
		slices.Sort(names)
		b.plan.Rollback.Kept = append(b.plan.Rollback.Kept, KeptClusters{why, len(names), names[:min(len(names), maxKept)]})
	}
	slices.SortFunc(b.plan.Rollback.Kept, func(a, b KeptClusters) int { return cmp.Compare(a.Reason, b.Reason) })
}

// stage adds what is to be done at some positions of a stage, if there are any.
func (b *inverter) stage(from *PlannedStage, name string, here map[int]bool) {
	out, first := *from, len(b.plan.Clusters)
	out.Name, out.Groups, out.Gates, out.Flow = name, nil, nil, Flow{Timeout: from.Timeout}
	var places []int
	for i, g := range from.Groups {
		at := len(b.plan.Clusters)
		for pos := g.First + g.Len - 1; pos >= g.First; pos-- {
			if here[pos] {
				b.plan.Clusters = append(b.plan.Clusters, b.cluster(pos))
			}
		}
		g.First, g.Len, g.Gates, g.After, g.Flow = at, len(b.plan.Clusters)-at, nil, nil, Flow{Timeout: g.Timeout}
		if g.Len > 0 {
			out.Groups, places = append(out.Groups, g), append(places, i)
		}
	}
	out.reverseOrder(from, places)
	if len(b.plan.Clusters) == first {
		return
	}
	if b.plan.Clusters[first].Revision < 0 {
		out.makeRemoval()
	}
	b.plan.Stages = append(b.plan.Stages, out)
}

// reverseOrder makes groups wait for those that waited for them, also by way of
// groups that are not there any more. places are their indexes in from.
func (s *PlannedStage) reverseOrder(from *PlannedStage, places []int) {
	for i, g := range places {
		for j, other := range places {
			if from.waitsFor(other, g) {
				s.Groups[i].After = append(s.Groups[i].After, j)
			}
		}
	}
}

// waitsFor tells that a group begins after another one, or after one that does.
func (s *PlannedStage) waitsFor(group, other int) bool {
	return slices.ContainsFunc(s.Groups[group].After, func(i int) bool { return i == other || s.waitsFor(i, other) })
}

// makeRemoval makes the stage one that cleans: what cannot be cleaned is skipped,
// so that nothing fails.
func (s *PlannedStage) makeRemoval() {
	s.Remove, s.MaxFailures, s.Strict, s.Flow = true, -1, false, Flow{}
	for i := range s.Groups {
		g := &s.Groups[i]
		g.MaxFailures, g.Strict, g.Flow, g.After = -1, false, Flow{}, nil
	}
}

// cluster is what is to be done at a position.
func (b *inverter) cluster(pos int) PlannedCluster {
	c := b.from.Clusters[pos]
	c.Revision = -1
	if b.back[pos] {
		c.Revision, _ = slices.BinarySearch(b.plan.Revisions, b.previous[c.Name].Revision)
	}
	return c
}

// cleanName is the name of the stage that cleans the clusters of a stage which
// had nothing before.
func (b *inverter) cleanName(stage string) string {
	const suffix = "-" + RemovalStageName
	name := stage[:min(len(stage), validation.DNS1123LabelMaxLength-len(suffix))] + suffix
	for n := 2; b.from.stageIndex(name) >= 0 || b.plan.stageIndex(name) >= 0; n++ {
		more := suffix + strconv.Itoa(n)
		name = stage[:min(len(stage), validation.DNS1123LabelMaxLength-len(more))] + more
	}
	return name
}

// checkRollback checks what only a plan that takes back has.
func (p *Plan) checkRollback() error {
	b := p.Rollback
	if b == nil {
		return nil
	}
	if p.Strategy.Rollback != nil {
		return fmt.Errorf("takes back run %q, and has a rollback itself", b.Run)
	}
	if len(b.Indexes) != len(p.Revisions) || slices.ContainsFunc(b.Indexes, func(i int) bool { return i < 0 || i > p.Index }) {
		return fmt.Errorf("takes back run %q: indexes %v are not those of %d revisions, up to %d", b.Run, b.Indexes, len(p.Revisions), p.Index)
	}
	if !planIsID(b.Plan) || !planIsID(b.UID) || b.Run == "" {
		return fmt.Errorf("takes back run %q with UID %q of plan %q: there is none", b.Run, b.UID, b.Plan)
	}
	return nil
}
