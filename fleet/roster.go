package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// rosterPerPage bounds a page of the roster, in clusters.
const rosterPerPage = 1000

// rosterHead names the generation of the roster that counts: the clusters that
// may hold something of the placement. It is written again only when it
// changes.
type rosterHead struct {
	Generation int64 `json:"generation,omitempty"`
	// ID tells the writers of a generation apart, of which one commits.
	ID    string `json:"id,omitempty"`
	Pages int    `json:"pages,omitempty"`
}

// rosterPage is a part of the roster: clusters by what they may hold, of which
// there are few.
type rosterPage struct {
	Format int           `json:"format"`
	Groups []rosterGroup `json:"groups"`
}

type rosterGroup struct {
	holding
	Clusters []string `json:"clusters"`
}

func rosterPrefix(name string) string { return "roster/" + name + "/" }

func (h rosterHead) key(name string, page int) string {
	return h.prefix(name) + strconv.Itoa(page)
}

// prefix is that of the keys of a generation.
func (h rosterHead) prefix(name string) string {
	return fmt.Sprintf("%s%d-%s-", rosterPrefix(name), h.Generation, h.ID)
}

// readRoster returns the roster of a placement, with what was changed of it and is not
// committed yet.
func (e *Engine) readRoster(ctx context.Context, rec *placementRecord) (roster, error) {
	if rec.changed != nil {
		return maps.Clone(rec.changed), nil
	}
	return e.rosterAt(ctx, rec.Placement.Name, rec.Roster)
}

// rosterAt reads a generation of the roster of a placement.
func (e *Engine) rosterAt(ctx context.Context, name string, head rosterHead) (roster, error) {
	out := roster{}
	if head.Pages < 0 {
		return nil, damaged(placementKey(name), fmt.Errorf("its roster has %d pages", head.Pages))
	}
	for i := range head.Pages {
		r, err := e.store.Get(ctx, head.key(name, i))
		if err != nil {
			return nil, fmt.Errorf("placement %s: page %d of %d of its roster: %w", name, i, head.Pages, err)
		}
		var page rosterPage
		if err := decodeRecord(r, &page); err != nil {
			return nil, err
		}
		for _, g := range page.Groups {
			for _, c := range g.Clusters {
				out[c] = g.holding
			}
		}
	}
	return out, nil
}

// setRoster makes a roster a new generation, whose pages are written when the record is
// committed.
func (rec *placementRecord) setRoster(r roster) {
	pages := (len(r) + rosterPerPage - 1) / rosterPerPage
	rec.Roster = rosterHead{Generation: rec.Roster.Generation + 1, ID: newUID(), Pages: pages}
	rec.changed, rec.InUse = r, r.inUse()
}

// pages adds the pages of a roster that was changed to the commit that names them.
func (rec *placementRecord) pages(c *commit) {
	page := 0
	for names := range slices.Chunk(slices.Sorted(maps.Keys(rec.changed)), rosterPerPage) {
		c.page(rec.Roster.key(rec.Placement.Name, page), encodeRecord(rosterPage{Format: recordFormat, Groups: rec.changed.groups(names)}))
		page++
	}
}

// dropRosters deletes the generations before the one that counts, but for that
// which a run can be taken back to, and what others wrote for it and for those:
// none of that can be committed any more.
func (e *Engine) dropRosters(ctx context.Context, rec *placementRecord) {
	name := rec.Placement.Name
	e.discardIf(ctx, rosterPrefix(name), func(key string) bool {
		text, _, _ := strings.Cut(strings.TrimPrefix(key, rosterPrefix(name)), "-")
		generation, err := strconv.ParseInt(text, 10, 64)
		return err == nil && generation <= rec.Roster.Generation && !rec.isRoster(key)
	})
}

// discardAll deletes every key under prefix.
func (e *Engine) discardAll(ctx context.Context, prefix string) {
	e.discardIf(ctx, prefix, func(string) bool { return true })
}

// discardIf deletes the keys under prefix that match, to which nothing refers.
// What cannot be deleted stays.
func (e *Engine) discardIf(ctx context.Context, prefix string, match func(key string) bool) {
	var all []backend.Write
	for rec, err := range e.store.List(ctx, prefix) {
		if err != nil {
			break
		}
		if match(rec.Key) {
			all = append(all, deletion(rec.Key, rec.Revision))
		}
	}
	discard(ctx, e.store, all)
}
