package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// Placement returns the record of a placement and its revision.
func (st *State) Placement(ctx context.Context, name string) (*record.Placement, backend.Revision, error) {
	rec, err := st.storedPlacement(ctx, name)
	if err != nil {
		return nil, "", err
	}
	p, err := decodePlacement(name, rec)
	return p, rec.Revision, err
}

func decodePlacement(name string, rec backend.Record) (*record.Placement, error) {
	p := new(record.Placement)
	if err := record.Decode(rec, p); err != nil {
		return nil, err
	}
	if len(p.Key) != record.KeyBytes {
		return nil, record.Damaged(rec.Key, fmt.Errorf("its key has %d bytes, want %d", len(p.Key), record.KeyBytes))
	}
	return p, record.CheckName(rec.Key, name, p.Placement.Name)
}

// storedPlacement reads the record of a placement.
func (st *State) storedPlacement(ctx context.Context, name string) (backend.Record, error) {
	missing := errdef.NotFound(errdef.Placement, name, "declare it first")
	if len(problems.Name(nil, name)) > 0 {
		return backend.Record{}, missing
	}
	rec, err := st.store.Get(ctx, record.PlacementKey(name))
	if IsNotFound(err) {
		return rec, missing
	}
	return rec, err
}

// ErrUnchanged tells UpdatePlacement and the updates of caps that there is nothing to write.
var ErrUnchanged = errors.New("unchanged")

// UpdatePlacement changes the parts of a placement's record that its state machine does not decide
// about, the declaration and the events, by compare-and-swap. It calls change again after a
// conflict, and appends the events that change returns.
func (st *State) UpdatePlacement(ctx context.Context, name string, change func(*record.Placement) ([]stages.Event, error)) error {
	for {
		rec, rev, err := st.Placement(ctx, name)
		if err != nil {
			return err
		}
		events, err := change(rec)
		if errors.Is(err, ErrUnchanged) {
			return nil
		}
		if err != nil {
			return err
		}
		err = st.CommitPlacement(ctx, new(record.Commit), rec, rev, st.stamped(name, events))
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// CommitPlacement writes the record of a placement with the events of the change, and with the
// pages that are in the commit already.
func (st *State) CommitPlacement(ctx context.Context, c *record.Commit, rec *record.Placement, rev backend.Revision, events []stages.Event) error {
	name := rec.Placement.Name
	rec.Journal = rec.Journal.Append(c, record.PlacementStream(name), events)
	c.Record = backend.Write{Key: record.PlacementKey(name), Value: record.Encode(rec), Prev: rev}
	written, err := c.Write(ctx, st.store)
	switch {
	case err == nil:
		st.seen.Add(name, seenPlacement{rec, written})
	case errors.Is(err, backend.ErrConflict):
		c.Abandon(ctx, st.store)
	}
	return err
}

// IsStale reports whether data is missing because the placement's record that names it, at revision
// rev, is no longer current.
func (st *State) IsStale(ctx context.Context, name string, rev backend.Revision, err error) bool {
	if !IsNotFound(err) {
		return false
	}
	now, err := st.store.Get(ctx, record.PlacementKey(name))
	return err == nil && now.Revision != rev
}

// WithPlacement calls do with the record of a placement. It calls do again with a newer record if
// do did not find data that the record names.
func (st *State) WithPlacement(ctx context.Context, name string, do func(*record.Placement) error) error {
	for {
		rec, rev, err := st.Placement(ctx, name)
		if err != nil {
			return err
		}
		if err = do(rec); err == nil || !st.IsStale(ctx, name, rev, err) {
			return err
		}
	}
}

// stamped sets the time and the placement of events.
func (st *State) stamped(placement string, events []stages.Event) []stages.Event {
	for i := range events {
		events[i].Time, events[i].Placement = st.Now(), placement
	}
	return events
}
