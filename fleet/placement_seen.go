package fleet

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/slipway-dev/slipway/snapshot"
)

// seenKept is how many decoded records of placements an engine keeps in memory.
const seenKept = 64

// seenPlacements are records of placements with what they were decoded from, by
// the name. A record is read again each time, so that nothing that became of it
// goes unnoticed; it is decoded where it is another one.
type seenPlacements struct {
	mu   sync.Mutex
	last map[string]seenPlacement
}

type seenPlacement struct {
	value []byte
	rec   *placementRecord
}

// of returns what a value was decoded to, nil if it was not.
func (s *seenPlacements) of(name string, value []byte) *placementRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.last[name]; ok && bytes.Equal(seen.value, value) {
		return seen.rec
	}
	return nil
}

func (s *seenPlacements) keep(name string, value []byte, rec *placementRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) >= seenKept || s.last == nil {
		s.last = map[string]seenPlacement{}
	}
	s.last[name] = seenPlacement{value, rec}
}

// seenPlacement is placementAt for those who only read: what it returns is shared.
func (e *Engine) seenPlacement(ctx context.Context, name string) (*placementRecord, error) {
	stored, err := e.storedPlacement(ctx, name)
	if err != nil {
		return nil, err
	}
	if rec := e.seen.of(name, stored.Value); rec != nil {
		return rec, nil
	}
	rec := new(placementRecord)
	if err := decodeRecord(stored, rec); err != nil {
		return nil, err
	}
	if err := checkName(stored.Key, name, rec.Placement.Name); err != nil {
		return nil, err
	}
	e.seen.keep(name, stored.Value, rec)
	return rec, nil
}

// Snapshots returns the snapshots of a placement that are kept, ascending by
// index; the last is the latest.
func (e *Engine) Snapshots(ctx context.Context, name string) ([]snapshot.Snapshot, error) {
	rec, err := e.seenPlacement(ctx, name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(rec.Snapshots), nil
}

// Items returns what a snapshot consists of, before overrides, in the order of
// application. [snapshot.Compare] tells what two of them differ in.
func (e *Engine) Items(ctx context.Context, name string, index int) ([]snapshot.Item, error) {
	rec, err := e.seenPlacement(ctx, name)
	if err != nil {
		return nil, err
	}
	s, err := rec.snapshotAt(index)
	if err != nil {
		return nil, err
	}
	items, _, err := e.contents.indexed(ctx, name, s.Set)
	return slices.Clone(items), err
}
