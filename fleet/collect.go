package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func isNotFound(err error) bool { return errors.Is(err, backend.ErrNotFound) }

func contentPrefix(placement string) string { return "content/" + placement + "/" }

// trim drops the snapshots beyond the history limit that nothing needs, and
// tells whether there were any.
func (rec *placementRecord) trim() bool {
	limit := rec.Placement.HistoryLimit
	drop := snapshot.Retain(rec.Snapshots, limit, rec.needed())
	rec.Snapshots = slices.DeleteFunc(rec.Snapshots, func(s snapshot.Snapshot) bool {
		return slices.Contains(drop, s.Index)
	})
	return len(drop) > 0
}

// needed are the indexes that a run, a cluster's ledger or a rollback needs.
func (rec *placementRecord) needed() map[int]bool {
	out := map[int]bool{}
	for _, i := range rec.InUse {
		out[i] = true
	}
	if rec.Previous != nil {
		out[*rec.Previous] = true
	}
	for _, r := range rec.Runs {
		if r.Ended == "" || r.Ended == stages.Failed {
			out[r.Index] = true
		}
	}
	return out
}

// digestsOf adds the digest of everything that a set consists of to into.
func (e *Engine) digestsOf(ctx context.Context, placement, set string, into map[string]bool) error {
	if into[set] {
		return nil
	}
	items, pages, err := e.contents.index(ctx, placement, set)
	if err != nil {
		return err
	}
	into[set] = true
	for _, p := range pages {
		into[p] = true
	}
	for i := range items {
		into[items[i].Digest] = true
	}
	return nil
}

// collect deletes contents of a placement that no snapshot and no run refers
// to. It is safe beside captures and new runs: what is to go is announced in
// the placement's record first, and only revisions listed before that are
// deleted, so that whoever needs such a content again writes it again.
func (e *Engine) collect(ctx context.Context, name string) {
	if err := e.tryCollect(ctx, name); err != nil && ctx.Err() == nil {
		e.log.Warn("contents were not collected", "placement", name, "error", err)
	}
}

func (e *Engine) tryCollect(ctx context.Context, name string) error {
	rec, rev, err := e.placementAt(ctx, name)
	if err != nil {
		return err
	}
	stored := map[string]backend.Revision{}
	for r, err := range e.store.List(ctx, contentPrefix(name)) {
		if err != nil {
			return err
		}
		stored[strings.TrimPrefix(r.Key, contentPrefix(name))] = r.Revision
	}
	used, err := e.referenced(ctx, rec)
	if err != nil {
		return err
	}
	maps.DeleteFunc(stored, func(d string, _ backend.Revision) bool { return used[d] })
	if len(stored) == 0 {
		return nil
	}
	rec.Garbage = slices.Sorted(maps.Keys(stored))
	if len(rec.Garbage) > 1000 {
		rec.Garbage = rec.Garbage[:1000]
	}
	if _, err := e.store.Put(ctx, placementKey(name), encodeRecord(rec), rev); err != nil {
		return err
	}
	for _, d := range rec.Garbage {
		if err := e.store.Delete(ctx, contentPrefix(name)+d, stored[d]); err != nil && !isNotFound(err) && !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
	_, err = e.updatePlacement(ctx, name, func(rec *placementRecord) ([]stages.Event, error) {
		rec.Garbage = nil
		return nil, nil
	})
	return err
}

// referenced are the digests of all contents that are needed.
func (e *Engine) referenced(ctx context.Context, rec *placementRecord) (map[string]bool, error) {
	used := map[string]bool{}
	for _, s := range rec.Snapshots {
		if s.Overrides != "" {
			used[s.Overrides] = true
		}
		if err := e.digestsOf(ctx, rec.Placement.Name, s.Set, used); err != nil {
			return nil, err
		}
	}
	for _, r := range rec.Runs {
		p, err := e.readPlan(ctx, r.Plan)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, set := range p.Revisions {
			if err := e.digestsOf(ctx, rec.Placement.Name, set, used); err != nil && !isNotFound(err) {
				return nil, err
			}
		}
	}
	return used, nil
}
