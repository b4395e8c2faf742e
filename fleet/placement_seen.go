package fleet

import (
	"bytes"
	"context"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// seenSize is how many decoded records of placements an engine keeps in memory, for
// those who only read. A record is read from the store each time, so that every change
// of it is noticed, and decoded only where it differs from the one decoded before.
// BenchmarkClusterUpdate in docs/performance.md needs this for its x-cpu: the hub reads
// the record of a placement on every round of its loop.
const seenSize = 64

// seenPlacement is a decoded record with the value that it was decoded from.
type seenPlacement struct {
	value []byte
	rec   *record.Placement
}

// seenPlacement is placementAt for those who only read: what it returns is shared.
func (e *Engine) seenPlacement(ctx context.Context, name string) (*record.Placement, backend.Revision, error) {
	stored, err := e.storedPlacement(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if seen, ok := e.seen.Get(name); ok && bytes.Equal(seen.value, stored.Value) {
		return seen.rec, stored.Revision, nil
	}
	rec := new(record.Placement)
	if err := record.Decode(stored, rec); err != nil {
		return nil, "", err
	}
	if err := record.CheckName(stored.Key, name, rec.Placement.Name); err != nil {
		return nil, "", err
	}
	e.seen.Add(name, seenPlacement{stored.Value, rec})
	return rec, stored.Revision, nil
}
