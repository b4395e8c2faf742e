package fleet

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/stages"
)

// Preview returns the plan that CreateRun would record for spec, with the
// digest that it would have. Nothing is written, not even a snapshot, and the
// spec needs no name yet. The plan stays what it is; the next one may differ
// when something has changed: name its digest in RunSpec.Plan to be sure.
func (e *Engine) Preview(ctx context.Context, spec RunSpec) (*stages.Plan, error) {
	if err := problems.About("preview of a run", spec.problems()); err != nil {
		return nil, err
	}
	d, _, err := e.planner.Plan(ctx, spec.request())
	if err != nil {
		return nil, err
	}
	return d.Plan, nil
}
