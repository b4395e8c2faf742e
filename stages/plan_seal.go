package stages

import (
	"fmt"

	"github.com/slipway-dev/slipway/stages/internal/values"
)

// index fills the index of the clusters by name.
func (p *Plan) index() {
	p.byName = values.NameOrder(len(p.Clusters), func(i int) string { return p.Clusters[i].Name })
}

// IsSealed reports whether the plan has its unexported indexes, as plans of the planner,
// DecodePlan and JSON have.
func (p *Plan) IsSealed() bool {
	end := 0
	if n := len(p.Stages); n > 0 && len(p.Stages[n-1].Groups) > 0 {
		end = p.Stages[n-1].End()
	}
	return len(p.byName) == len(p.Clusters) && end == len(p.Clusters)
}

// Seal completes a plan that was changed or put together by hand, for example in a test: it
// sets the digest and the indexes of the clusters. If the planner could not have made the plan,
// it returns the error of [DecodePlan].
func (p *Plan) Seal() error {
	p.index()
	if err := p.check(); err != nil {
		return fmt.Errorf("plan of placement %q: %w", p.Placement, err)
	}
	p.indexDomains()
	return p.seal()
}

// SealSorted is Seal for the packages that make plans: it checks nothing, because a rollback may
// have no stage and no cluster. byName has the positions of the clusters in the order of their
// names.
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
