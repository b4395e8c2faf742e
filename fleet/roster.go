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
// may hold something of the placement. It is written anew only when it
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
	return fmt.Sprintf("%s%d-%s-%d", rosterPrefix(name), h.Generation, h.ID, page)
}

func (e *Engine) readRoster(ctx context.Context, rec *placementRecord) (roster, error) {
	out := roster{}
	for i := range rec.Roster.Pages {
		r, err := e.store.Get(ctx, rec.Roster.key(rec.Placement.Name, i))
		if err != nil {
			return nil, err
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

// writeRoster stores a roster as a new generation, to be committed with the
// placement's record.
func (e *Engine) writeRoster(ctx context.Context, rec *placementRecord, r roster) error {
	head := rosterHead{Generation: rec.Roster.Generation + 1, ID: newUID()}
	for names := range slices.Chunk(slices.Sorted(maps.Keys(r)), rosterPerPage) {
		value := encodeRecord(rosterPage{Format: recordFormat, Groups: r.groups(names)})
		if _, err := e.store.Put(ctx, head.key(rec.Placement.Name, head.Pages), value, ""); err != nil {
			return err
		}
		head.Pages++
	}
	rec.Roster, rec.InUse = head, r.inUse()
	return nil
}

// dropRosters deletes the generations before the one that counts, and what
// others wrote for it and for those: none of that can be committed any more.
func (e *Engine) dropRosters(ctx context.Context, name string, now rosterHead) {
	e.discardIf(ctx, rosterPrefix(name), func(key string) bool {
		text, rest, _ := strings.Cut(strings.TrimPrefix(key, rosterPrefix(name)), "-")
		generation, err := strconv.ParseInt(text, 10, 64)
		return err == nil && generation <= now.Generation && !strings.HasPrefix(rest, now.ID+"-")
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
