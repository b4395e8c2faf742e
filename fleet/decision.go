package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// Decision returns the last decision about a placement that [Engine.Resolve] or
// a run recorded. The error matches backend.ErrNotFound where there is none yet.
func (e *Engine) Decision(ctx context.Context, name string) (d placement.Decision, err error) {
	err = e.withPlacement(ctx, name, func(rec *record.Placement) error {
		have := rec.Decision
		if have == nil {
			return &NotFoundError{Kind: "decision", Name: name, Hint: "Resolve makes one, and so does a run"}
		}
		d = placement.Decision{Index: have.Index, PolicyDigest: have.PolicyDigest, Digest: have.Digest}
		d.Clusters, err = e.picked(ctx, name, have)
		return err
	})
	return d, err
}

// picked reads the clusters of a decision.
func (e *Engine) picked(ctx context.Context, name string, d *lifecycle.Decision) ([]string, error) {
	var out []string
	for i := range d.Pages {
		r, err := e.store.Get(ctx, record.PageKey(record.PagesPrefix(name, d), i))
		if err != nil {
			return nil, fmt.Errorf("placement %s: page %d of %d of its decision: %w", name, i, d.Pages, err)
		}
		var page record.DecisionPage
		if err := record.Decode(r, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Clusters...)
	}
	if d.Pages > 0 && len(out) != d.Clusters {
		return nil, record.Damaged(record.PagesPrefix(name, d), fmt.Errorf("it has %d clusters, the placement says %d", len(out), d.Clusters))
	}
	return out, nil
}

// decided is the decision of a draft as it is recorded with the run. Its clusters are stored apart where the
// plan does not list all of them: a run that catches up has only some, and others may be left out.
func (d *draft) decided() *lifecycle.Decision {
	if d.decision.Digest == "" {
		return nil
	}
	rec := recordOf(&d.decision)
	if d.whole && len(updated(d.plan)) == len(d.decision.Clusters) {
		rec.Pages = 0
	}
	return rec
}

func recordOf(d *placement.Decision) *lifecycle.Decision {
	return &lifecycle.Decision{Index: d.Index, PolicyDigest: d.PolicyDigest, Digest: d.Digest, Clusters: len(d.Clusters), Pages: record.DecisionPages(len(d.Clusters))}
}

// updated are the clusters that a plan brings something, ascending.
func updated(p *stages.Plan) []string {
	var out []string
	for i := range p.Clusters {
		if c := &p.Clusters[i]; c.Revision >= 0 {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// writePicked stores the clusters of a decision. What is there is written again,
// so that a deletion that has seen it spares it.
func (e *Engine) writePicked(ctx context.Context, name string, d *lifecycle.Decision, clusters []string) error {
	var writes []backend.Write
	for names := range slices.Chunk(clusters, record.DecisionPerPage) {
		value := record.Encode(record.DecisionPage{Format: record.Format, Clusters: names})
		writes = append(writes, backend.Write{Key: record.PageKey(record.PagesPrefix(name, d), len(writes)), Value: value})
	}
	return e.contents.putAll(ctx, writes)
}
