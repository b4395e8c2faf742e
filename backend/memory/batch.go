package memory

import (
	"context"

	"github.com/slipway-dev/slipway/backend"
)

var _ backend.Batcher = (*Store)(nil)

// WriteAll makes the writes in one step: a reader sees all of them or none. See [backend.Batcher].
func (s *Store) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	made := make([]backend.Revision, 0, len(writes))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		rev, err := s.write(ctx, w)
		if err != nil {
			return made, err
		}
		made = append(made, rev)
	}
	return made, nil
}

// write makes one write. The lock is held.
func (s *Store) write(ctx context.Context, w backend.Write) (backend.Revision, error) {
	if w.Delete {
		return "", s.remove(ctx, w.Key, w.Prev)
	}
	return s.put(ctx, w.Key, w.Value, w.Prev)
}
