package stages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/placement"
)

// NewPlan resolves a strategy and a target against the clusters that the
// target's decision picked, into a plan with a digest.
//
// Every cluster stands in exactly one stage and, where that has groups, in
// exactly one of them. Clusters stand in the order of the stage's sort key,
// then of their names. The clusters of t.Remove come last, in a stage of their
// own named [RemovalStageName]. Percentages become numbers here, over the
// frozen size of the stage or group: concurrency rounded down but at least 1,
// failures rounded up; a number is taken as it is, however few clusters there
// are. Profile ClusterUpdate refuses a number that caps a group at more than
// it has clusters, or than its stage's cap, unless the target is a [Target.Part].
// What is allowed and probably not meant becomes a warning of the plan.
//
// Where this is impossible the error lists every problem, with the clusters it
// is about: an invalid strategy, target or cluster; a cluster twice, in two
// stages or groups or in none; a sort label that is not an integer; a cluster
// both picked and to be removed. It wraps an aggregate of [field.Error]
// values.
//
// The result does not depend on the order of clusters, and shares nothing with
// the arguments. More than 16,384 clusters are looked at by several processors at
// a time, where there are several; the result does not depend on that either.
func NewPlan(s Strategy, t Target, clusters []placement.Cluster) (*Plan, error) {
	what := "plan of placement " + strconv.Quote(t.Placement)
	b := &planner{target: t, clusters: planByName(clusters)}
	b.check(&s)
	if err := planProblems(what, b.errs); err != nil {
		return nil, err
	}
	s, err := planFreeze(s)
	if err != nil {
		return nil, fmt.Errorf("%s: strategy: %w", what, err)
	}
	b.plan = &Plan{
		Strategy: s, Placement: t.Placement,
		Index: t.Index, Snapshot: t.Snapshot, Decision: t.Decision,
	}
	b.assign()
	b.order()
	if err := planProblems(what, b.errs); err != nil {
		return nil, err
	}
	b.resolve()
	b.checkSizes(field.NewPath("strategy", "stages"))
	if err := planProblems(what, b.errs); err != nil {
		return nil, err
	}
	b.index()
	b.plan.indexDomains()
	return b.plan, b.plan.seal()
}

// planFreeze returns a copy of s that shares nothing with it and is what
// storing and reading it gives.
func planFreeze(s Strategy) (Strategy, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return Strategy{}, err
	}
	var frozen Strategy
	return frozen, json.Unmarshal(b, &frozen)
}

// planner is a plan under construction.
type planner struct {
	target   Target
	clusters []planCluster // by name
	// positions are those of the clusters in the plan, -1 of one that is left out.
	positions []int32
	revisions []planRevisions // by piece
	stages    []*planStage
	pickers   planPickers // of the stages
	parts     []*planPart // of all stages
	plan      *Plan
	// spare is for sorting.
	spare    []planKeyed
	warnings []string
	errs     field.ErrorList
}

// planCluster is what a plan needs to know of a cluster. It is small, because a
// large fleet does not fit the processor's caches.
type planCluster struct {
	Name, UID string
	Labels    map[string]string
	// revision is a number of the revisions of its piece.
	revision int32
}

// Len returns the number of clusters, those to be removed included.
func (p *Plan) Len() int { return len(p.Clusters) }

// Position returns the position of a cluster; false when the plan has none of
// that name. The plan must be one from [NewPlan] or [DecodePlan].
func (p *Plan) Position(name string) (int, bool) {
	i, ok := slices.BinarySearchFunc(p.byName, name, func(pos int32, name string) int {
		return cmp.Compare(p.Clusters[pos].Name, name)
	})
	if !ok {
		return 0, false
	}
	return int(p.byName[i]), true
}

// StageOf returns the stage, an index into p.Stages, and the group, an index
// into that stage's Groups, that the cluster at pos stands in; -1 and -1 when
// there is no such position.
func (p *Plan) StageOf(pos int) (stage, group int) {
	if pos < 0 || pos >= len(p.Clusters) {
		return -1, -1
	}
	stage = planSearch(len(p.Stages), func(i int) bool { return p.Stages[i].end() > pos })
	groups := p.Stages[stage].Groups
	return stage, planSearch(len(groups), func(i int) bool { return groups[i].First+groups[i].Len > pos })
}

// planSearch returns the first of n for which is holds, as it does for all
// after it.
func planSearch(n int, is func(int) bool) int {
	low := 0
	for low < n {
		if mid := (low + n) / 2; is(mid) {
			n = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// end returns the position behind the stage's last cluster.
func (s *PlannedStage) end() int {
	last := s.Groups[len(s.Groups)-1]
	return last.First + last.Len
}

// index fills the plan's byName. The clusters, and those to be removed at the
// end of the plan, are in order of name already.
func (b *planner) index() {
	p, next := b.plan, len(b.plan.Clusters)-len(b.target.Remove)
	p.byName = make([]int32, 0, len(p.Clusters))
	for i, position := range b.positions {
		if position < 0 {
			continue
		}
		for ; next < len(p.Clusters) && p.Clusters[next].Name < b.clusters[i].Name; next++ {
			p.byName = append(p.byName, int32(next))
		}
		p.byName = append(p.byName, position)
	}
	for ; next < len(p.Clusters); next++ {
		p.byName = append(p.byName, int32(next))
	}
}

// index fills byName.
func (p *Plan) index() {
	p.byName = make([]int32, len(p.Clusters))
	for i, n := range planNameOrder(len(p.Clusters), func(i int) string { return p.Clusters[i].Name }) {
		p.byName[i] = int32(n.at)
	}
}

// seal gives the plan its digest.
func (p *Plan) seal() error {
	digest, err := p.sum()
	if err != nil {
		return fmt.Errorf("plan of placement %q: %w", p.Placement, err)
	}
	p.Digest = digest
	return nil
}

// warn records a warning.
func (b *planner) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// planSome lists names for a warning: the first ten, and how many more.
func planSome(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
}

// planKeys returns the keys of m in order.
func planKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
