package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/placement"
)

// New resolves a strategy and a target against the clusters that the
// target's selection picked, into a plan with a digest.
//
// Every cluster stands in exactly one stage: in the one that selects it, or else in the first one whose share of
// what is left has it, see [Stage].Take, or in that of the rest; and, where that has groups, in
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
// the arguments.
func New(s Strategy, t Target, clusters []placement.Cluster) (*Plan, error) {
	what := "plan of placement " + strconv.Quote(t.Placement)
	b := &planner{target: t, clusters: sortByName(clusters)}
	b.check(&s)
	if err := problemsOf(what, b.errs); err != nil {
		return nil, err
	}
	s, err := freezeStrategy(s)
	if err != nil {
		return nil, fmt.Errorf("%s: strategy: %w", what, err)
	}
	b.plan = &Plan{
		Strategy: s, Placement: t.Placement,
		Index: t.Index, Snapshot: t.Snapshot, Selection: t.Selection,
		Left: slices.Sorted(slices.Values(t.Left)),
	}
	b.assign()
	b.order()
	if err := problemsOf(what, b.errs); err != nil {
		return nil, err
	}
	b.resolve()
	b.checkSizes(field.NewPath("strategy", "stages"))
	if err := problemsOf(what, b.errs); err != nil {
		return nil, err
	}
	b.index()
	b.plan.indexDomains()
	return b.plan, b.plan.seal()
}

// freezeStrategy returns a copy of s that shares nothing with it and is what
// storing and reading it gives.
func freezeStrategy(s Strategy) (Strategy, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return Strategy{}, err
	}
	var frozen Strategy
	return frozen, json.Unmarshal(b, &frozen)
}
