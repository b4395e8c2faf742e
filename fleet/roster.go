package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// rosterPerPage bounds a page of the roster, in clusters.
const rosterPerPage = 1000

// rosterHead names the generation of the roster that counts: the clusters that
// may hold something of the placement. It is written anew only when it
// changes.
type rosterHead struct {
	Generation int64 `json:"generation,omitempty"`
	Pages      int   `json:"pages,omitempty"`
}

type rosterPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

func rosterKey(name string, generation int64, page int) string {
	return fmt.Sprintf("roster/%s/%d-%d", name, generation, page)
}

func (e *Engine) readRoster(ctx context.Context, rec *placementRecord) (map[string]bool, error) {
	out := map[string]bool{}
	for i := range rec.Roster.Pages {
		r, err := e.store.Get(ctx, rosterKey(rec.Placement.Name, rec.Roster.Generation, i))
		if err != nil {
			return nil, err
		}
		var page rosterPage
		if err := decodeRecord(r, &page); err != nil {
			return nil, err
		}
		for _, c := range page.Clusters {
			out[c] = true
		}
	}
	return out, nil
}

// writeRoster stores clusters as a new generation, to be committed with the
// placement's record. A generation that a crash left is written over.
func (e *Engine) writeRoster(ctx context.Context, rec *placementRecord, clusters map[string]bool) (rosterHead, error) {
	names := slices.Sorted(maps.Keys(clusters))
	head := rosterHead{Generation: rec.Roster.Generation + 1}
	for chunk := range slices.Chunk(names, rosterPerPage) {
		key := rosterKey(rec.Placement.Name, head.Generation, head.Pages)
		if err := e.overwrite(ctx, key, encodeRecord(rosterPage{Format: recordFormat, Clusters: chunk})); err != nil {
			return head, err
		}
		head.Pages++
	}
	return head, nil
}

// overwrite stores value under key, whatever is there.
func (e *Engine) overwrite(ctx context.Context, key string, value []byte) error {
	rec, err := e.store.Get(ctx, key)
	if err != nil && !isNotFound(err) {
		return err
	}
	_, err = e.store.Put(ctx, key, value, rec.Revision)
	return err
}

// dropRoster deletes a generation that no longer counts.
func (e *Engine) dropRoster(ctx context.Context, name string, head rosterHead) {
	for i := range head.Pages {
		e.discard(ctx, rosterKey(name, head.Generation, i))
	}
}

// discard deletes a key that nothing refers to. What cannot be deleted stays.
func (e *Engine) discard(ctx context.Context, key string) {
	if rec, err := e.store.Get(ctx, key); err == nil {
		_ = e.store.Delete(ctx, key, rec.Revision)
	}
}

// discardAll deletes every key under prefix.
func (e *Engine) discardAll(ctx context.Context, prefix string) {
	var all []backend.Record
	for rec, err := range e.store.List(ctx, prefix) {
		if err != nil {
			break
		}
		all = append(all, rec)
	}
	for _, rec := range all {
		_ = e.store.Delete(ctx, rec.Key, rec.Revision)
	}
}

// enrolled returns the roster with the clusters of a plan in it, and whether
// that is anything new.
func enrolled(roster map[string]bool, p *stages.Plan) bool {
	fresh := false
	for i := range p.Clusters {
		if c := &p.Clusters[i]; c.Revision >= 0 && !roster[c.Name] {
			roster[c.Name] = true
			fresh = true
		}
	}
	return fresh
}

// struckOff takes the clusters that the run has cleaned out of the roster, and
// tells whether there were any.
func struckOff(roster map[string]bool, p *stages.Plan, r *stages.Run) bool {
	changed := false
	for pos, state := range stages.States(p, r) {
		if c := &p.Clusters[pos]; c.Revision < 0 && state == stages.Completed && roster[c.Name] {
			delete(roster, c.Name)
			changed = true
		}
	}
	return changed
}
