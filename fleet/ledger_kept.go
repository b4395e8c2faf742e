package fleet

import (
	"context"
	"sync"
	"sync/atomic"
)

// What is kept of ledgers with a connection: so many, and none with more text.
const (
	ledgersKept    = 8
	ledgerKeptMost = 16 << 10
)

// keptLedgers are ledgers as this process last saw or wrote them when they were
// closed, by placement. A ledger that is kept saves an update the reading of it.
// It may be out of date, and that is found where it counts: whatever an update does
// begins with a write of the ledger that demands that it is still this one, and one
// that finds nothing to do confirms it. So it is as if it had been read long
// before the objects, of which it only matters that they are read later.
//
// With it the objects are kept that it names: see keptObjects.
type keptLedgers struct {
	// room is what objects may take yet, shared with other connections.
	room *atomic.Int64

	mu     sync.Mutex
	all    map[string]keptLedger
	closed bool
}

type keptLedger struct {
	ledgerAt
	objects keptObjects
}

// take returns the ledger of a placement and keeps it no longer.
func (k *keptLedgers) take(placement string) (*keptLedger, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.all[placement]
	k.drop(placement)
	return &l, ok
}

// drop forgets a ledger. The lock is held.
func (k *keptLedgers) drop(placement string) {
	if k.room != nil {
		k.room.Add(k.all[placement].objects.size)
	}
	delete(k.all, placement)
}

// keep keeps a ledger that is closed, and of the objects what there is room for.
func (k *keptLedgers) keep(l *ledgerAt, targets []*target) {
	if !l.exists() || l.open() || len(l.baseline)+l.size() > ledgerKeptMost {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if k.all == nil {
		k.all = map[string]keptLedger{}
	}
	for other := range k.all {
		if other == l.Placement || len(k.all) >= ledgersKept {
			k.drop(other)
		}
	}
	kept := keptLedger{ledgerAt: *l}
	kept.known = nil // it is decoded again where it is asked for
	if k.room != nil {
		kept.objects = keepObjects(targets, l.Placement, k.room)
	}
	k.all[l.Placement] = kept
}

// close forgets everything, and keeps nothing more.
func (k *keptLedgers) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for placement := range k.all {
		k.drop(placement)
	}
	k.closed = true
}

// size is about how much text a ledger is.
func (l *ledger) size() int {
	const each = 200
	return each * (1 + len(l.Objects) + len(l.Doubtful))
}

// findLedger returns the ledger as it is, or as it was kept. That is not kept any
// longer before the update has come to its end.
func (w *work) findLedger(ctx context.Context) (*ledgerAt, error) {
	if w.reuses && !w.a.keeps {
		l, ok := w.m.ledgers.take(w.a.Placement)
		if w.cached = ok; ok {
			w.memory = l.objects
			return &l.ledgerAt, nil
		}
	}
	return readLedger(ctx, w.m, w.a.Placement)
}

// settle ends an update that finds nothing to do, or that nothing can be done.
func (w *work) settle(ctx context.Context) error {
	if w.cached && w.ledger.Epoch >= w.a.Epoch {
		return w.confirm(ctx)
	}
	return w.fence(ctx)
}
