package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// Plan resolves a strategy and a target against the clusters that the target's selection picked,
// into a plan with a digest.
//
// Every cluster is in exactly one stage. A stage that selects the cluster comes first, then the
// first stage with a share that includes it, see [stages.Stage].Take, then the stage of the rest.
// If the stage has groups, the cluster is in exactly one of them. Clusters are ordered by the
// stage's sort key, then by name. The clusters of t.Remove come last, in a stage of their own named
// [stages.RemovalStageName].
//
// Percentages are resolved over the frozen size of the stage or group: concurrency is rounded down
// but is at least 1, failures are rounded up. A number is never adjusted to the number of clusters.
// Profile ClusterUpdate refuses a number that caps a group at more clusters than it has, or than
// its stage's cap, unless the target is a [stages.Target.Part]. The plan has a warning for each
// setting that is valid but probably a mistake.
//
// The error lists every problem with its clusters: an invalid strategy, target or cluster; a
// cluster twice, in two stages or groups or in none; a sort label that is not an integer; a cluster
// both picked and in t.Remove. It wraps an aggregate of [field.Error] values.
//
// The result does not depend on the order of clusters, and shares nothing with the arguments.
func Plan(s stages.Strategy, t stages.Target, clusters []placement.Cluster) (*stages.Plan, error) {
	what := "plan of placement " + strconv.Quote(t.Placement)
	b := &planner{target: t, clusters: sortByName(clusters)}
	inputs{b}.check(&s)
	if err := values.ProblemsOf(what, b.errs); err != nil {
		return nil, err
	}
	s, err := freezeStrategy(s)
	if err != nil {
		return nil, fmt.Errorf("%s: strategy: %w", what, err)
	}
	b.plan = &stages.Plan{
		Strategy: s, Placement: t.Placement,
		Index: t.Index, Snapshot: t.Snapshot, Selection: t.Selection,
		Left: slices.Sorted(slices.Values(t.Left)),
	}
	b.assign()
	b.order()
	if err := values.ProblemsOf(what, b.errs); err != nil {
		return nil, err
	}
	b.resolve()
	b.checkSizes(field.NewPath("strategy", "stages"))
	if err := values.ProblemsOf(what, b.errs); err != nil {
		return nil, err
	}
	if err := b.plan.SealSorted(b.byName()); err != nil {
		return nil, err
	}
	return b.plan, nil
}

// freezeStrategy returns a copy of s that shares nothing with it and equals s after an encoding to
// JSON and back.
func freezeStrategy(s stages.Strategy) (stages.Strategy, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return stages.Strategy{}, err
	}
	var frozen stages.Strategy
	return frozen, json.Unmarshal(b, &frozen)
}
