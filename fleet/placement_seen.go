package fleet

import (
	"bytes"
	"context"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
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
	rec   *record.Placement
}

// of returns what a value was decoded to, nil if it was not.
func (s *seenPlacements) of(name string, value []byte) *record.Placement {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen, ok := s.last[name]; ok && bytes.Equal(seen.value, value) {
		return seen.rec
	}
	return nil
}

func (s *seenPlacements) keep(name string, value []byte, rec *record.Placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) >= seenKept || s.last == nil {
		s.last = map[string]seenPlacement{}
	}
	s.last[name] = seenPlacement{value, rec}
}

// seenPlacement is placementAt for those who only read: what it returns is shared.
func (e *Engine) seenPlacement(ctx context.Context, name string) (*record.Placement, backend.Revision, error) {
	stored, err := e.storedPlacement(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if rec := e.seen.of(name, stored.Value); rec != nil {
		return rec, stored.Revision, nil
	}
	rec := new(record.Placement)
	if err := record.Decode(stored, rec); err != nil {
		return nil, "", err
	}
	if err := record.CheckName(stored.Key, name, rec.Placement.Name); err != nil {
		return nil, "", err
	}
	e.seen.keep(name, stored.Value, rec)
	return rec, stored.Revision, nil
}
