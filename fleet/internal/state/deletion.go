package state

import (
	"context"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// Open returns an error if the placement is being deleted.
func Open(rec *record.Placement) error { return HostError(rec.Open(rec.Placement.Name)) }

// DeletedAt returns the record that remains of a deleted placement and its revision, or zero values
// if there is none.
func (st *State) DeletedAt(ctx context.Context, name string) (d record.Deleted, rev backend.Revision, err error) {
	rec, err := st.store.Get(ctx, record.DeletedKey(name))
	if IsNotFound(err) {
		return d, "", nil
	}
	if err != nil {
		return d, "", err
	}
	return d, rec.Revision, record.Decode(rec, &d)
}
