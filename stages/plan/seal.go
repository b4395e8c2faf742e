package plan

import "fmt"

// index fills the positions of the clusters, by which they are found.
func (p *Plan) index() {
	p.byName = nameOrder(len(p.Clusters), func(i int) string { return p.Clusters[i].Name })
}

// IsSealed reports whether the plan has what New, Decode and its JSON give it beside its fields.
func (p *Plan) IsSealed() bool {
	end := 0
	if n := len(p.Stages); n > 0 && len(p.Stages[n-1].Groups) > 0 {
		end = p.Stages[n-1].End()
	}
	return len(p.byName) == len(p.Clusters) && end == len(p.Clusters)
}

// Seal gives a plan that was changed or put together by hand, as tests do, what [New] gives one: its digest, and
// what its clusters are found by. The error is that of [Decode] about a plan that New could not have made.
func (p *Plan) Seal() error {
	p.index()
	if err := p.check(); err != nil {
		return fmt.Errorf("plan of placement %q: %w", p.Placement, err)
	}
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
