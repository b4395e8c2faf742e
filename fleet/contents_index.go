package fleet

import (
	"context"
	"slices"
	"sync"

	"github.com/slipway-dev/slipway/snapshot"
)

// indexedObjects is how many objects the indexes that are kept have together at
// most, where each index counts as indexCost more.
const (
	indexedObjects = 100_000
	indexCost      = 64
)

// indexes are what sets consist of, as far as it was read lately. What a set
// consists of follows from its digest and never changes; that it is still stored
// does not follow.
type indexes struct {
	mu      sync.Mutex
	kept    []setIndex // the last used comes last
	objects int
}

type setIndex struct {
	placement, set string
	items          []snapshot.Item
	pages          []string
}

func (i setIndex) cost() int { return len(i.items) + indexCost }

// indexed is index for those who need not know that the set is still stored. What
// it returns is shared and must not be changed.
func (c *contents) indexed(ctx context.Context, placement, set string) ([]snapshot.Item, []string, error) {
	if known, ok := c.indexes.get(placement, set); ok {
		return known.items, known.pages, nil
	}
	items, pages, err := c.index(ctx, placement, set)
	if err == nil {
		c.indexes.keep(setIndex{placement, set, items, pages})
	}
	return items, pages, err
}

func (x *indexes) find(placement, set string) int {
	return slices.IndexFunc(x.kept, func(i setIndex) bool { return i.set == set && i.placement == placement })
}

func (x *indexes) get(placement, set string) (setIndex, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.find(placement, set)
	if at < 0 {
		return setIndex{}, false
	}
	found := x.kept[at]
	x.kept = append(slices.Delete(x.kept, at, at+1), found)
	return found, true
}

// keep takes an index in, and forgets those that were not used for longest.
func (x *indexes) keep(i setIndex) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i.cost() > indexedObjects || x.find(i.placement, i.set) >= 0 {
		return
	}
	x.kept, x.objects = append(x.kept, i), x.objects+i.cost()
	drop := 0
	for x.objects > indexedObjects {
		x.objects -= x.kept[drop].cost()
		drop++
	}
	x.kept = slices.Delete(x.kept, 0, drop)
}
