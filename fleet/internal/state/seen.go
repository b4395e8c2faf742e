package state

import (
	"context"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// SeenPlacement is like Placement, but the record is shared and the caller must not change it.
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

// LastSeen returns a function that reads the record of a placement once.
func (st *State) LastSeen(ctx context.Context, name string) func() (*record.Placement, error) {
	return sync.OnceValues(func() (*record.Placement, error) {
		rec, _, err := st.SeenPlacement(ctx, name)
		return rec, err
	})
}

// AtRevision returns a function that reads the record of a placement once. A watch reported that
// the record is at revision rev; if this engine has that revision in memory, the function does not
// read the store.
func (st *State) AtRevision(ctx context.Context, name string, rev backend.Revision) func() (*record.Placement, error) {
	if seen, ok := st.seen.Get(name); ok && seen.rev == rev {
		return func() (*record.Placement, error) { return seen.rec, nil }
	}
	return st.LastSeen(ctx, name)
}
