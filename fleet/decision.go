package fleet

import (
	"context"
	"fmt"
	"maps"
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

// Resolve decides which clusters a placement picks now, without a run, and
// returns the decision. Where that differs from the last one, by the policy or
// by the inventory, it is recorded and told by a DecisionTaken event; otherwise
// nothing is written. A run that is created decides anew.
func (e *Engine) Resolve(ctx context.Context, name string) (placement.Decision, error) {
	inventory, err := e.inventory(ctx)
	if err != nil {
		return placement.Decision{}, err
	}
	var d placement.Decision
	_, err = e.updatePlacement(ctx, name, func(rec *placementRecord) ([]stages.Event, error) {
		if err := rec.open(); err != nil {
			return nil, err
		}
		if d, err = placement.Resolve(rec.Placement.Policy, slices.Collect(maps.Values(inventory))); err != nil {
			return nil, fmt.Errorf("placement %s: %w", name, err)
		}
		before := rec.Decision
		events, err := e.decide(ctx, rec, recordOf(&d), d.Clusters)
		if err != nil {
			return nil, err
		}
		d.Index = rec.Decision.Index
		if rec.Decision == before {
			return nil, errUnchanged
		}
		return events, nil
	})
	return d, err
}

// Decision returns the last decision about a placement that [Engine.Resolve] or
// a run recorded. The error matches backend.ErrNotFound where there is none yet.
// Of one that was recorded by whoever did not know the clusters, they are nil.
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

// decided is the decision of a draft as it is recorded.
func (d *draft) decided() *decisionRecord { return recordOf(&d.decision) }

func recordOf(d *placement.Decision) *decisionRecord {
	return &decisionRecord{PolicyDigest: d.PolicyDigest, Digest: d.Digest, Clusters: len(d.Clusters)}
}

// picked are the clusters of the decision that a draft was made of. One of which
// only the plan is known has them where it covers all of them.
func (d *draft) picked(rr *runRecord) []string {
	if !d.partial || !rr.Whole {
		return d.decision.Clusters
	}
	var out []string
	for i := range d.plan.Clusters {
		if c := &d.plan.Clusters[i]; c.Revision >= 0 {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// decide takes a decision into a placement's record where it is new, and stores
// the clusters, which may not be known, to be committed with that.
func (e *Engine) decide(ctx context.Context, rec *placementRecord, d *decisionRecord, clusters []string) ([]stages.Event, error) {
	old, known := rec.Decision, d != nil && len(clusters) == d.Clusters
	same := d != nil && old != nil && old.Digest == d.Digest
	if d == nil || same && (!known || old.Pages > 0 || d.Clusters == 0) {
		return nil, nil
	}
	now := *d
	if old != nil {
		now.Index = old.Index
		if old.PolicyDigest != d.PolicyDigest {
			now.Index++
		}
	}
	if known {
		if err := e.writePicked(ctx, rec.Placement.Name, &now, clusters); err != nil {
			return nil, err
		}
	}
	if rec.Decision = &now; same {
		return nil, nil
	}
	return []stages.Event{{Type: stages.DecisionTaken, Index: &now.Index, Digest: now.Digest, Count: now.Clusters}}, nil
}

// writePicked stores the clusters of a decision. What is there is written again,
// so that a deletion that has seen it spares it.
func (e *Engine) writePicked(ctx context.Context, name string, d *decisionRecord, clusters []string) error {
	var writes []backend.Write
	for names := range slices.Chunk(clusters, decisionPerPage) {
		value := encodeRecord(decisionPage{Format: recordFormat, Clusters: names})
		writes = append(writes, backend.Write{Key: pageKey(d.prefix(name), d.Pages), Value: value})
		d.Pages++
	}
	return e.contents.putAll(ctx, writes)
}
