package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// FrozenOverrides reads the overrides of a snapshot, and the stored document that holds them.
func (st *State) FrozenOverrides(ctx context.Context, name string, s *snapshot.Snapshot) (overrides []placement.Override, document []byte, err error) {
	if s.Overrides == "" {
		return nil, nil, nil
	}
	if document, err = st.contents.LoadBlob(ctx, name, s.Overrides); err == nil {
		overrides, err = placement.DecodeOverrides(document)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot %s: its overrides: %w", s.Name(), err)
	}
	return overrides, document, nil
}

// SnapshotAt returns the verified snapshot with this index.
func SnapshotAt(rec *record.Placement, index int) (snapshot.Snapshot, error) {
	name := rec.Placement.Name
	kept, err := rec.SnapshotAt(index)
	if errors.Is(err, lifecycle.ErrNotFound) {
		return kept, errdef.NotFound(errdef.Snapshot, name+"-"+strconv.Itoa(index)+"-snapshot", "placement "+name+" has "+rec.Indexes())
	}
	return kept, err
}

// OverridesOf reads the overrides of the snapshot with this index.
func (st *State) OverridesOf(ctx context.Context, rec *record.Placement, index int) ([]placement.Override, error) {
	s, err := SnapshotAt(rec, index)
	if err != nil {
		return nil, err
	}
	overrides, _, err := st.FrozenOverrides(ctx, rec.Placement.Name, &s)
	return overrides, err
}

// Content returns a function that reads the content of an assignment's revision.
func (st *State) Content(placement, revision string) func(context.Context) (snapshot.Set, error) {
	return func(ctx context.Context) (snapshot.Set, error) { return st.contents.LoadSet(ctx, placement, revision) }
}
