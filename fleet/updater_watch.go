package fleet

import (
	"context"
	"fmt"
	"iter"

	"github.com/slipway-dev/slipway/snapshot"
)

// Watch yields when an object of the revision or of the ledger changes, or the
// ledger itself. See [Watcher].
func (u *snapshotUpdater) Watch(ctx context.Context, a Assignment) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		m, ids, err := u.watched(ctx, a)
		if err != nil {
			yield(struct{}{}, err)
			return
		}
		for _, err := range m.watch(ctx, ids, u.poll) {
			if !yield(struct{}{}, err) || err != nil {
				return
			}
		}
	}
}

// watched returns the objects that a watch is about.
func (u *snapshotUpdater) watched(ctx context.Context, a Assignment) (*memberConn, []snapshot.ID, error) {
	m, err := u.conns.get(ctx, a.Cluster)
	if err != nil {
		return nil, nil, err
	}
	w := &work{u: u, a: a, m: m}
	if err := w.read(ctx); err != nil {
		return nil, nil, err
	}
	if a.Revision != "" {
		if w.rev, err = u.contents.load(ctx, a.Placement, a.Revision); err != nil {
			return nil, nil, fmt.Errorf("cluster %s: %w", m.name, err)
		}
	}
	ids := []snapshot.ID{ledgerID(a.Placement)}
	for _, t := range targetsOf(w.rev, w.ledger.ledger) {
		ids = append(ids, t.id)
	}
	return m, ids, nil
}
