package member

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/snapshot"
)

// What is kept of ledgers with a connection: so many, and none with more text. They and
// their objects are what BenchmarkClusterUpdate in docs/performance.md needs for its
// more-requests: an update reads neither its ledger nor an object that it changes.
const (
	ledgersKept    = 8
	ledgerKeptMost = 16 << 10
)

const (
	// objectKeptMost is how large an object may be that is kept, and objectsKept
	// how much all are together that an engine keeps. They are counted in bytes of
	// text, of which an object in memory takes several times as many.
	objectKeptMost = 8 << 10
	objectsKept    = 8 << 20
)

// ledgerCache holds closed ledgers of a cluster as this process last read or wrote them,
// by placement, so that an update need not read its ledger. A cached ledger is safe when
// stale: the first write of an update is one of the ledger, conditional on its uid and
// resourceVersion, and an update that finds nothing to do confirms it. It is older than the
// objects either way, which are read later.
//
// It is cached as the text that the member has, which is a third of what it takes in
// memory. The objects that a ledger names are cached with it: see cachedObjects.
type ledgerCache struct {
	// room is what objects may take yet, shared with other connections.
	room *atomic.Int64
	kept *lru.Cache[string, cachedLedger]
}

type cachedLedger struct {
	ledgerAt
	objects cachedObjects
}

func newLedgerCache(room *atomic.Int64) ledgerCache {
	return ledgerCache{room, lru.New[string, cachedLedger](ledgersKept, nil)}
}

// take returns the ledger of a placement and keeps it no longer.
func (k *ledgerCache) take(placement string) (*cachedLedger, bool) {
	l, ok := k.kept.Take(placement)
	if !ok {
		return nil, false
	}
	k.room.Add(l.objects.size)
	var err error
	l.ledger, err = decodeLedger(placement, l.text, l.key)
	return &l, err == nil
}

// keep keeps a ledger that is closed, and of the objects what there is room for.
func (k *ledgerCache) keep(l *ledgerAt, targets []*target) {
	if !l.exists() || l.open() || len(l.baseline)+len(l.text) > ledgerKeptMost {
		return
	}
	k.take(l.Placement)
	kept := cachedLedger{ledgerAt: *l, objects: cacheObjects(targets, l.Placement, k.room)}
	kept.ledger, kept.known = nil, nil // they are decoded again
	k.free(k.kept.Add(l.Placement, kept))
}

// free gives back the room of ledgers that are not kept any more.
func (k *ledgerCache) free(gone []cachedLedger) {
	for i := range gone {
		k.room.Add(gone[i].objects.size)
	}
}

// close drops everything, and keeps nothing more.
func (k *ledgerCache) close() { k.free(k.kept.Resize(0)) }

// cachedObjects are objects as this process applied them, cached with the ledger that
// says so. An object that is to be applied in another version need not be read: the apply
// is conditional on the cached uid and resourceVersion, and on a conflict the object is read.
//
// Unchanged objects are still read: only the member can prove their state.
type cachedObjects struct {
	byID map[snapshot.ID]*unstructured.Unstructured
	size int64
}

// cacheObjects keeps those that are as they were applied, and that no other placement applies, as far
// as there is room.
func cacheObjects(targets []*target, placement string, room *atomic.Int64) cachedObjects {
	k := cachedObjects{byID: map[snapshot.ID]*unstructured.Unstructured{}}
	for _, t := range targets {
		if t.want == nil || t.held != nil || t.live == nil || isTerminating(t.live) ||
			digestOn(t.live, placement) != t.want.Digest || len(otherPlacements(t.live, placement)) > 0 {
			continue
		}
		size := textOf(t.live.Object, objectKeptMost)
		if size > objectKeptMost {
			continue
		}
		if room.Add(-size) < 0 {
			room.Add(size)
			continue
		}
		k.byID[objectKey(t.id)], k.size = t.live, k.size+size
	}
	return k
}

// textOf is about how much text a value has; where it has more than most, it is
// more than that.
func textOf(v any, most int64) (n int64) {
	const each = 8
	switch v := v.(type) {
	case string:
		return each + int64(len(v))
	case map[string]any:
		for key, value := range v {
			if n += each + int64(len(key)) + textOf(value, most-n); n > most {
				break
			}
		}
	case []any:
		for _, value := range v {
			if n += textOf(value, most-n); n > most {
				break
			}
		}
	}
	return n + each
}
