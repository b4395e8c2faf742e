package memory

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// maxPending bounds what is kept for a consumer that does not keep up: the
// number of different keys that changed.
const maxPending = 1 << 16

// errOverrun ends the watch of a consumer that fell too far behind.
var errOverrun = errors.New("the watch fell behind by too many keys, watch again")

// storeWatch is one consumer of changes. Its fields but signal belong to the
// store's lock.
type storeWatch struct {
	prefix  string
	pending []backend.Change
	at      map[string]int // where a key is in pending
	overrun bool
	signal  chan struct{}
}

// Watch yields what changes under prefix. See [backend.Watcher]. A consumer
// that is 65,536 different keys behind is ended with an error.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		w, existing := s.subscribe(prefix)
		defer s.unsubscribe(w)
		if !yieldAll(ctx, existing, yield) {
			return
		}
		for s.wait(ctx, w, yield) {
		}
	}
}

// yieldAll yields what exists and tells whether to go on.
func yieldAll(ctx context.Context, existing []*entry, yield func(backend.Change, error) bool) bool {
	for _, e := range existing {
		if ctx.Err() != nil {
			break
		}
		if !yield(backend.Change{Key: e.key, Revision: e.revision}, nil) {
			return false
		}
	}
	return true
}

// wait yields the next changes and tells whether to go on.
func (s *Store) wait(ctx context.Context, w *storeWatch, yield func(backend.Change, error) bool) bool {
	if err := await(ctx, w.signal); err != nil {
		yield(backend.Change{}, err)
		return false
	}
	changes, overrun := s.take(w)
	if overrun {
		yield(backend.Change{}, failed("watch", w.prefix, errOverrun))
		return false
	}
	for _, c := range changes {
		if ctx.Err() != nil {
			return true
		}
		if !yield(c, nil) {
			return false
		}
	}
	return true
}

func (s *Store) subscribe(prefix string) (*storeWatch, []*entry) {
	w := &storeWatch{prefix: prefix, at: map[string]int{}, signal: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watches == nil {
		s.watches = map[*storeWatch]struct{}{}
	}
	s.watches[w] = struct{}{}
	return w, s.all(prefix)
}

func (s *Store) unsubscribe(w *storeWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watches, w)
}

func (s *Store) take(w *storeWatch) ([]backend.Change, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := w.pending
	w.pending = nil
	clear(w.at)
	return changes, w.overrun
}

// announce tells the watches of a write. The lock is held.
func (s *Store) announce(c backend.Change) {
	for w := range s.watches {
		if strings.HasPrefix(c.Key, w.prefix) {
			w.add(c)
			wake(w.signal)
		}
	}
}

// add keeps the last change of each key.
func (w *storeWatch) add(c backend.Change) {
	if i, ok := w.at[c.Key]; ok {
		w.pending[i] = c
		return
	}
	if len(w.pending) == maxPending {
		w.overrun, w.pending = true, nil
		clear(w.at)
	}
	if !w.overrun {
		w.at[c.Key] = len(w.pending)
		w.pending = append(w.pending, c)
	}
}

// await blocks until there is a signal or ctx ends.
func await(ctx context.Context, signal <-chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-signal:
		return ctx.Err()
	}
}

// wake leaves one signal; a consumer that has not taken the last one needs no
// second.
func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
