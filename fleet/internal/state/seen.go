package state

import (
	"context"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// SeenPlacement is Placement for a caller that changes nothing of the record: it is shared.
func (st *State) SeenPlacement(ctx context.Context, name string) (*record.Placement, backend.Revision, error) {
	stored, err := st.storedPlacement(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if seen, ok := st.seen.Get(name); ok && seen.rev == stored.Revision {
		return seen.rec, stored.Revision, nil
	}
	rec, err := decodePlacement(name, stored)
	if err != nil {
		return nil, "", err
	}
	st.seen.Add(name, seenPlacement{rec, stored.Revision})
	return rec, stored.Revision, nil
}

// LastSeen returns what reads the record of a placement, once.
func (st *State) LastSeen(ctx context.Context, name string) func() (*record.Placement, error) {
	return sync.OnceValues(func() (*record.Placement, error) {
		rec, _, err := st.SeenPlacement(ctx, name)
		return rec, err
	})
}

// AtRevision returns what reads the record of a placement, once, of which a watch says that it is at a
// revision: it is not read again where this engine wrote it.
func (st *State) AtRevision(ctx context.Context, name string, rev backend.Revision) func() (*record.Placement, error) {
	if seen, ok := st.seen.Get(name); ok && seen.rev == rev {
		return func() (*record.Placement, error) { return seen.rec, nil }
	}
	return st.LastSeen(ctx, name)
}
