package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// decisionPerPage bounds a page of picked clusters, in names.
const decisionPerPage = 3000

// decisionPage is a part of the clusters that a decision picked, ascending.
type decisionPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

func decisionPrefix(placement string) string { return "decision/" + placement + "/" }

// prefix is that of the keys of a decision's pages.
func (d *decisionRecord) prefix(placement string) string {
	return decisionPrefix(placement) + d.Digest
}

// Decision returns the last decision about a placement that [Engine.Resolve] or
// a run recorded. The error matches backend.ErrNotFound where there is none yet.
// Of one that an older version recorded without its clusters, they are nil.
func (e *Engine) Decision(ctx context.Context, name string) (d placement.Decision, err error) {
	err = e.withPlacement(ctx, name, func(rec *placementRecord) error {
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
func (e *Engine) picked(ctx context.Context, name string, d *decisionRecord) ([]string, error) {
	var out []string
	for i := range d.Pages {
		r, err := e.store.Get(ctx, pageKey(d.prefix(name), i))
		if err != nil {
			return nil, fmt.Errorf("placement %s: page %d of %d of its decision: %w", name, i, d.Pages, err)
		}
		var page decisionPage
		if err := decodeRecord(r, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Clusters...)
	}
	if d.Pages > 0 && len(out) != d.Clusters {
		return nil, damaged(d.prefix(name), fmt.Errorf("it has %d clusters, the placement says %d", len(out), d.Clusters))
	}
	return out, nil
}

// decided is the decision of a draft as it is recorded with the run. Its clusters
// are stored apart where the plan does not tell them: it has some of them only,
// as in a run that catches up, or leaves some out.
func (d *draft) decided() *decisionRecord {
	if d.decision.Digest == "" {
		return nil
	}
	rec := recordOf(&d.decision)
	if d.whole && len(updated(d.plan)) == len(d.decision.Clusters) {
		rec.Pages = 0
	}
	return rec
}

func recordOf(d *placement.Decision) *decisionRecord {
	pages := (len(d.Clusters) + decisionPerPage - 1) / decisionPerPage
	return &decisionRecord{Index: d.Index, PolicyDigest: d.PolicyDigest, Digest: d.Digest, Clusters: len(d.Clusters), Pages: pages}
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

// pickedBy are the clusters of the decision that a draft was made of, nil where
// nobody knows them any more.
func (e *Engine) pickedBy(ctx context.Context, rr *runRecord, d *draft) ([]string, error) {
	switch {
	case !d.partial || rr.Decision == nil:
		return d.decision.Clusters, nil
	case rr.Decision.Pages == 0:
		return updated(d.plan), nil // of an older version, that may not be all
	}
	return e.picked(ctx, rr.Run.Placement, rr.Decision)
}

// decide takes a decision into a placement's record where it is new, and stores
// the clusters, to be committed with that. One whose clusters are not known is
// not taken: the next decision could not say what is placed already.
func (e *Engine) decide(ctx context.Context, rec *placementRecord, d *decisionRecord, clusters []string) ([]stages.Event, error) {
	old := rec.Decision
	if d == nil || len(clusters) != d.Clusters {
		return nil, nil
	}
	same := old != nil && old.Digest == d.Digest
	if same && (old.Pages > 0 || d.Clusters == 0) {
		return nil, nil
	}
	now := *recordOf(&placement.Decision{PolicyDigest: d.PolicyDigest, Digest: d.Digest, Clusters: clusters, Index: rec.indexOf(d.PolicyDigest)})
	if err := e.writePicked(ctx, rec.Placement.Name, &now, clusters); err != nil {
		return nil, err
	}
	if rec.Decision = &now; same {
		return nil, nil
	}
	return []stages.Event{{Type: stages.DecisionTaken, Index: &now.Index, Digest: now.Digest, Count: now.Clusters}}, nil
}

// indexOf is the index of a decision by the policy of a digest, were it the next
// one.
func (rec *placementRecord) indexOf(policy string) int {
	switch {
	case rec.Decision == nil:
		return 0
	case rec.Decision.PolicyDigest != policy:
		return rec.Decision.Index + 1
	}
	return rec.Decision.Index
}

// writePicked stores the clusters of a decision. What is there is written again,
// so that a deletion that has seen it spares it.
func (e *Engine) writePicked(ctx context.Context, name string, d *decisionRecord, clusters []string) error {
	var writes []backend.Write
	for names := range slices.Chunk(clusters, decisionPerPage) {
		value := encodeRecord(decisionPage{Format: recordFormat, Clusters: names})
		writes = append(writes, backend.Write{Key: pageKey(d.prefix(name), len(writes)), Value: value})
	}
	return e.contents.putAll(ctx, writes)
}
