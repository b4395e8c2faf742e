package state

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/stages"
)

// Plans are the plans in a store.
type Plans struct {
	store    backend.Store
	contents *content.Store
	// kept are the plans that this process has read and verified, or made itself.
	kept *lru.Cache[string, *stages.Plan]
}

// planCacheSize is the number of plans that an engine keeps in memory. The engine has read and
// verified them, or made them itself, and they never change. BenchmarkClusterUpdate in
// docs/performance.md needs them for its hub-requests/update, because an engine carries out the
// plan that it has just stored.
const planCacheSize = 64

// Write stores a plan under its digest: first the writes in before, then the pages, then the
// header. It writes existing records again, so that a deletion that has seen them spares them.
func (ps *Plans) Write(ctx context.Context, p *stages.Plan, before ...backend.Write) error {
	header, pages := p.Encode()
	writes := append(make([]backend.Write, 0, len(before)+len(pages)+1), before...)
	for i, page := range pages {
		writes = append(writes, backend.Write{Key: record.PageKey(PlanKey(p.Digest), i), Value: page})
	}
	return ps.contents.PutAll(ctx, append(writes, backend.Write{Key: PlanKey(p.Digest), Value: header}))
}

// PlanKey returns the key of the header of a plan, which is also the prefix of the keys of its
// pages.
func PlanKey(digest string) string { return "plan/" + digest }

// Read reads a plan and verifies it against its digest.
func (ps *Plans) Read(ctx context.Context, digest string) (*stages.Plan, error) {
	if p, ok := ps.kept.Get(digest); ok {
		return p, nil
	}
	header, err := ps.store.Get(ctx, PlanKey(digest))
	if err != nil {
		return nil, err
	}
	var head struct {
		Pages int `json:"pages"`
	}
	if err := json.Unmarshal(header.Value, &head); err != nil {
		return nil, record.Damaged(header.Key, err)
	}
	var pages [][]byte
	for i := range head.Pages {
		rec, err := ps.store.Get(ctx, record.PageKey(PlanKey(digest), i))
		if err != nil {
			return nil, err
		}
		pages = append(pages, rec.Value)
	}
	p, err := stages.DecodePlan(header.Value, pages)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", digest, guard.Permanent(err))
	}
	if p.Digest != digest {
		return nil, fmt.Errorf("plan %s: the record holds another plan, %s: %w", digest, p.Digest, backend.ErrPermanent)
	}
	ps.kept.Add(digest, p)
	return p, nil
}

// Cache keeps a plan that this process made in memory.
func (ps *Plans) Cache(p *stages.Plan) { ps.kept.Add(p.Digest, p) }
