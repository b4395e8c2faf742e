package member

import "github.com/slipway-dev/slipway/internal/lru"

// Limits of the ledgers cached per connection: their number, and the bytes of each.
// BenchmarkClusterUpdate in docs/performance.md needs them for its x-cpu, because an update does
// not read a cached ledger.
const (
	ledgersKept    = 8
	ledgerKeptMost = 16 << 10
)

// ledgerCache holds closed ledgers of a cluster as this process last read or wrote them, by
// placement, so that an update need not read its ledger. A stale ledger is safe: the first write of
// an update is a write of the ledger, conditional on its uid and resourceVersion, and an update
// that finds nothing to do confirms the ledger. In both cases the ledger is older than the objects,
// which are read later.
//
// A ledger is cached as the text from the member, which takes a third of the memory of the decoded
// ledger.
type ledgerCache struct{ kept *lru.Cache[string, ledgerAt] }

func newLedgerCache() ledgerCache { return ledgerCache{lru.New[string, ledgerAt](ledgersKept, nil)} }

// take removes the ledger of a placement from the cache and returns it.
func (k *ledgerCache) take(placement string) (*ledgerAt, bool) {
	l, ok := k.kept.Take(placement)
	if !ok {
		return nil, false
	}
	var err error
	l.ledger, err = decodeLedger(placement, l.text, l.key)
	return &l, err == nil
}

// keep caches a ledger if it exists, is closed and is small enough.
func (k *ledgerCache) keep(l *ledgerAt) {
	if !l.exists() || l.open() || len(l.baseline)+len(l.text) > ledgerKeptMost {
		return
	}
	kept := *l
	kept.ledger, kept.known = nil, nil // they are decoded again
	k.kept.Add(l.Placement, kept)
}

// close empties the cache for good.
func (k *ledgerCache) close() { k.kept.Resize(0) }
