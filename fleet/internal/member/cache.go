package member

import "github.com/slipway-dev/slipway/internal/lru"

// What is kept of ledgers with a connection: so many, and none with more text. They are what
// BenchmarkClusterUpdate in docs/performance.md needs for its x-cpu: an update does not read its ledger.
const (
	ledgersKept    = 8
	ledgerKeptMost = 16 << 10
)

// ledgerCache holds closed ledgers of a cluster as this process last read or wrote them,
// by placement, so that an update need not read its ledger. A cached ledger is safe when
// stale: the first write of an update is one of the ledger, conditional on its uid and
// resourceVersion, and an update that finds nothing to do confirms it. It is older than the
// objects either way, which are read later.
//
// It is cached as the text that the member has, which is a third of what it takes in
// memory.
type ledgerCache struct{ kept *lru.Cache[string, ledgerAt] }

func newLedgerCache() ledgerCache { return ledgerCache{lru.New[string, ledgerAt](ledgersKept, nil)} }

// take returns the ledger of a placement and keeps it no longer.
func (k *ledgerCache) take(placement string) (*ledgerAt, bool) {
	l, ok := k.kept.Take(placement)
	if !ok {
		return nil, false
	}
	var err error
	l.ledger, err = decodeLedger(placement, l.text, l.key)
	return &l, err == nil
}

// keep keeps a ledger that is closed.
func (k *ledgerCache) keep(l *ledgerAt) {
	if !l.exists() || l.open() || len(l.baseline)+len(l.text) > ledgerKeptMost {
		return
	}
	kept := *l
	kept.ledger, kept.known = nil, nil // they are decoded again
	k.kept.Add(l.Placement, kept)
}

// close drops everything, and keeps nothing more.
func (k *ledgerCache) close() { k.kept.Resize(0) }
