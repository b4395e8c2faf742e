package stages

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages/internal/values"
)

// index fills the positions of the clusters, by which they are found.
func (p *Plan) index() {
	p.byName = values.NameOrder(len(p.Clusters), func(i int) string { return p.Clusters[i].Name })
}

// IsSealed reports whether the plan has what the planner, DecodePlan and its JSON give it beside its fields.
func (p *Plan) IsSealed() bool {
	end := 0
	if n := len(p.Stages); n > 0 && len(p.Stages[n-1].Groups) > 0 {
		end = p.Stages[n-1].End()
	}
	return len(p.byName) == len(p.Clusters) && end == len(p.Clusters)
}

// Seal gives a plan that was changed or put together by hand, as tests do, what planner.Plan gives one: its digest, and
// what its clusters are found by. The error is that of [DecodePlan] about a plan that the planner could not have made.
func (p *Plan) Seal() error {
	p.index()
	if err := p.check(); err != nil {
		return fmt.Errorf("plan of placement %q: %w", p.Placement, err)
	}
	p.indexDomains()
	return p.seal()
}

// SealSorted is Seal for the planner: the plan is new, so nothing is checked, and byName has the positions
// of its clusters in the order of their names.
func (p *Plan) SealSorted(byName values.Order) error {
	p.byName = byName
	p.indexDomains()
	return p.seal()
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
