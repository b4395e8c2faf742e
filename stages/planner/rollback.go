package planner

import (
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/inverse"
)

// RollBack returns the plan that rolls back the run r of the plan p: every cluster that the run may have
// changed goes to what previous has under its name, or to nothing where it has none. The plan has no clusters
// where there is nothing to roll back.
//
// The last stage comes first and in it the last cluster, with the numbers of p: caps, budgets, and what the
// strategy says of attempts, deadlines and health. Of its gates there is one, before the first stage, where
// the strategy's Rollback asks for approval. Clusters that had nothing are cleaned where Rollback says so,
// each group of them in a stage of its own behind the stage that they were in. Clusters that p cleaned
// because they left the placement stay clean. The plan rolls nothing back itself. If the run does not belong to
// the plan, RollBack returns the error of [stages.Check].
func RollBack(p *stages.Plan, r *stages.Run, previous map[string]stages.Previous) (*stages.Plan, error) {
	if err := stages.Check(p, r); err != nil {
		return nil, err
	}
	return inverse.Plan(p, r, previous)
}
