package memory

import (
	"context"
	"iter"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
)

// Store is a [backend.Watcher] and [backend.Batcher] in memory. Revisions count
// the writes of the whole store. The zero Store is empty and ready to use.
type Store struct {
	mu      sync.Mutex
	entries index
	written uint64
	bytes   int64
	feed    feed.Feed
}

var _ backend.Watcher = (*Store)(nil)

// NewStore returns an empty store.
func NewStore() *Store { return &Store{} }

// Stats returns how many writes took effect, deletions included, and the bytes
// of the values that were put since the store was made. A write that was
// refused does not count.
func (s *Store) Stats() (writes int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.written), s.bytes
}

// Len returns the number of keys.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.entries.chunks {
		n += len(c)
	}
	return n
}

// Get returns the record of key. See [backend.Store].
func (s *Store) Get(ctx context.Context, key string) (backend.Record, error) {
	if err := admit(ctx, key, nil); err != nil {
		return backend.Record{}, failed("get", key, err)
	}
	s.mu.Lock()
	e := s.entries.get(key)
	s.mu.Unlock()
	if e == nil {
		return backend.Record{}, failed("get", key, backend.ErrNotFound)
	}
	return e.record(), nil
}

// Put writes value if the revision of key is prev. See [backend.Store].
func (s *Store) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(ctx, key, value, prev)
}

// put is Put while the lock is held.
func (s *Store) put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if err := admit(ctx, key, value); err != nil {
		return "", failed("put", key, err)
	}
	var current backend.Revision
	if e := s.entries.get(key); e != nil {
		key, current = e.key, e.revision
	}
	if current != prev {
		return "", failed("put", key, backend.ErrConflict)
	}
	e := &entry{key: key, value: slices.Clone(value), revision: s.next()}
	s.entries.set(e)
	s.bytes += int64(len(value))
	s.feed.Announce(backend.Change{Key: key, Revision: e.revision})
	return e.revision, nil
}

// Delete removes key if its revision is prev. See [backend.Store].
func (s *Store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(ctx, key, prev)
}

// remove is Delete while the lock is held.
func (s *Store) remove(ctx context.Context, key string, prev backend.Revision) error {
	if err := admit(ctx, key, nil); err != nil {
		return failed("delete", key, err)
	}
	e := s.entries.get(key)
	switch {
	case e == nil:
		return failed("delete", key, backend.ErrNotFound)
	case e.revision != prev:
		return failed("delete", key, backend.ErrConflict)
	}
	s.entries.remove(key)
	s.written++
	s.feed.Announce(backend.Change{Key: e.key, Deleted: true})
	return nil
}

// List yields the records under prefix. See [backend.Store]. It holds no lock
// while it yields and a page of records at a time.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		from, first := prefix, true
		for page := make([]*entry, 0, 64); ; first = false {
			if err := ctx.Err(); err != nil {
				yield(backend.Record{}, failed("list", prefix, err))
				return
			}
			page = s.page(page[:0], prefix, from, first)
			for _, e := range page {
				if !yield(e.record(), nil) {
					return
				}
			}
			if len(page) < cap(page) {
				return
			}
			from = page[len(page)-1].key
		}
	}
}

func (s *Store) page(buf []*entry, prefix, from string, inclusive bool) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries.page(buf, prefix, from, inclusive, cap(buf))
}

// all returns every entry under prefix. The lock is held.
func (s *Store) all(prefix string) []*entry {
	return s.entries.page(nil, prefix, prefix, true, math.MaxInt)
}

// next counts a write and returns its revision. The lock is held.
func (s *Store) next() backend.Revision {
	s.written++
	return backend.Revision(strconv.FormatUint(s.written, 10))
}

func (e *entry) record() backend.Record {
	return backend.Record{Key: e.key, Value: append([]byte{}, e.value...), Revision: e.revision}
}

// admit checks what a call brings before anything else happens.
func admit(ctx context.Context, key string, value []byte) error {
	if err := backend.ValidateKey(key); err != nil {
		return err
	}
	if err := backend.ValidateValue(value); err != nil {
		return err
	}
	return ctx.Err()
}

func failed(op, object string, err error) error {
	return &backend.Error{Op: op, Object: object, Err: err}
}
