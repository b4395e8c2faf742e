package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	// ID tells the writers of a generation apart, of which one commits.
	ID    string `json:"id,omitempty"`
	Pages int    `json:"pages,omitempty"`
}

type rosterPage struct {
	Format   int      `json:"format"`
	Clusters []string `json:"clusters"`
}

func rosterPrefix(name string) string { return "roster/" + name + "/" }

func (h rosterHead) key(name string, page int) string {
	return fmt.Sprintf("%s%d-%s-%d", rosterPrefix(name), h.Generation, h.ID, page)
}

func (e *Engine) readRoster(ctx context.Context, rec *placementRecord) (map[string]bool, error) {
	out := map[string]bool{}
	for i := range rec.Roster.Pages {
		r, err := e.store.Get(ctx, rec.Roster.key(rec.Placement.Name, i))
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
// placement's record.
func (e *Engine) writeRoster(ctx context.Context, rec *placementRecord, clusters map[string]bool) (rosterHead, error) {
	names := slices.Sorted(maps.Keys(clusters))
	head := rosterHead{Generation: rec.Roster.Generation + 1, ID: newUID()}
	for chunk := range slices.Chunk(names, rosterPerPage) {
		value := encodeRecord(rosterPage{Format: recordFormat, Clusters: chunk})
		if _, err := e.store.Put(ctx, head.key(rec.Placement.Name, head.Pages), value, ""); err != nil {
			return head, err
		}
		head.Pages++
	}
	return head, nil
}

// dropRoster deletes a generation that no longer counts, and with it what
// others wrote for it and for those before it: none of that can be committed
// any more.
func (e *Engine) dropRoster(ctx context.Context, name string, old rosterHead) {
	e.discardIf(ctx, rosterPrefix(name), func(key string) bool {
		text, _, _ := strings.Cut(strings.TrimPrefix(key, rosterPrefix(name)), "-")
		generation, err := strconv.ParseInt(text, 10, 64)
		return err == nil && generation <= old.Generation
	})
}

// discardAll deletes every key under prefix.
func (e *Engine) discardAll(ctx context.Context, prefix string) {
	e.discardIf(ctx, prefix, func(string) bool { return true })
}

// discardIf deletes the keys under prefix that match, to which nothing refers.
// What cannot be deleted stays.
func (e *Engine) discardIf(ctx context.Context, prefix string, match func(key string) bool) {
	var all []backend.Record
	for rec, err := range e.store.List(ctx, prefix) {
		if err != nil {
			break
		}
		if match(rec.Key) {
			all = append(all, backend.Record{Key: rec.Key, Revision: rec.Revision})
		}
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
