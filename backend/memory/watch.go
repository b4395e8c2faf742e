package memory

import (
	"context"
	"iter"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
)

// Watch yields what changes under prefix. See [backend.Watcher]. A consumer
// that is 65,536 different keys behind is ended with an error.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return s.feed.Follow(ctx, prefix, func(join func()) ([]backend.Change, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		join()
		var existing []backend.Change
		for _, e := range s.all(prefix) {
			existing = append(existing, backend.Change{Key: e.key, Revision: e.revision})
		}
		return existing, nil
	})
}

// await blocks until there is a signal or ctx ends.
func await(ctx context.Context, signal <-chan struct{}) error { return feed.Await(ctx, signal) }

// wake leaves one signal.
func wake(signal chan<- struct{}) { feed.Wake(signal) }
