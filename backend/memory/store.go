package memory

import (
	"context"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
)

// Store is a [backend.Watcher] and [backend.Batcher] in memory. A revision is the number of the
// write among all writes of the store. The zero Store is empty and ready to use.
type Store struct {
	mu      sync.Mutex
	entries index
	written uint64
	bytes   int64
	feed    feed.Feed
}

var (
	_ backend.Watcher = (*Store)(nil)
	_ backend.Batcher = (*Store)(nil)
)

// NewStore returns an empty store.
func NewStore() *Store { return &Store{} }

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

// Delete removes key if its revision is prev. See [backend.Store].
func (s *Store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(ctx, key, prev)
}

// WriteAll makes the writes in one step: a reader sees all writes that succeeded, or none. See
// [backend.Batcher].
func (s *Store) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := make([]backend.Revision, 0, len(writes))
	for _, w := range writes {
		var revision backend.Revision
		var err error
		if w.Delete {
			err = s.remove(ctx, w.Key, w.Prev)
		} else {
			revision, err = s.put(ctx, w.Key, w.Value, w.Prev)
		}
		if err != nil {
			return made, err
		}
		made = append(made, revision)
	}
	return made, nil
}

// put is Put with the lock held.
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
	s.written++
	s.bytes += int64(len(value))
	e := &entry{key, slices.Clone(value), backend.Revision(strconv.FormatUint(s.written, 10))}
	s.entries.set(e)
	s.feed.Announce(backend.Change{Key: key, Revision: e.revision})
	return e.revision, nil
}

// remove is Delete with the lock held.
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
	s.written++
	s.entries.remove(key)
	s.feed.Announce(backend.Change{Key: e.key, Deleted: true})
	return nil
}

// List yields the records under prefix. See [backend.Store]. It copies a page of entries at a
// time, and holds no lock while it yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		from, inclusive := prefix, true
		for page := make([]*entry, 0, 64); ; inclusive = false {
			if err := ctx.Err(); err != nil {
				yield(backend.Record{}, failed("list", prefix, err))
				return
			}
			s.mu.Lock()
			page = s.entries.page(page[:0], prefix, from, inclusive, cap(page))
			s.mu.Unlock()
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

// Watch yields the changes under prefix. See [backend.Watcher]. If a consumer is 65,536 different
// keys behind, its watch ends with an error.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return s.feed.Follow(ctx, prefix, func(join func()) ([]backend.Change, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		join()
		var existing []backend.Change
		for _, e := range s.entries.page(nil, prefix, prefix, true, math.MaxInt) {
			existing = append(existing, backend.Change{Key: e.key, Revision: e.revision})
		}
		return existing, nil
	})
}

// Stats returns how many writes took effect, deletions included, and the total bytes of the
// values that were put since the store was made.
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
	for _, chunk := range s.entries.chunks {
		n += len(chunk)
	}
	return n
}

// admit checks the arguments of a call before it has any effect.
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

// entry is one write of a key. It is immutable, so it is read without the
// store's lock.
type entry struct {
	key      string
	value    []byte
	revision backend.Revision
}

func (e *entry) record() backend.Record {
	return backend.Record{Key: e.key, Value: append([]byte{}, e.value...), Revision: e.revision}
}

// index holds entries ascending by key, in chunks that are not empty, so that
// an insertion moves at most chunkSize pointers.
type index struct {
	chunks [][]*entry
}

const chunkSize = 256

// find returns the position of key, or the position at which it would be inserted.
func (x *index) find(key string) (chunk, i int, found bool) {
	chunk = sort.Search(len(x.chunks), func(c int) bool { return x.chunks[c][0].key > key }) - 1
	if chunk < 0 {
		return 0, 0, false
	}
	i, found = slices.BinarySearchFunc(x.chunks[chunk], key, func(e *entry, key string) int {
		return strings.Compare(e.key, key)
	})
	return chunk, i, found
}

func (x *index) get(key string) *entry {
	chunk, i, found := x.find(key)
	if !found {
		return nil
	}
	return x.chunks[chunk][i]
}

func (x *index) set(e *entry) {
	if len(x.chunks) == 0 {
		x.chunks = [][]*entry{{e}}
		return
	}
	chunk, i, found := x.find(e.key)
	if found {
		x.chunks[chunk][i] = e
		return
	}
	x.chunks[chunk] = slices.Insert(x.chunks[chunk], i, e)
	if full := x.chunks[chunk]; len(full) > chunkSize {
		at := len(full) / 2
		if i == len(full)-1 { // keys come in ascending order: leave full chunks behind
			at = i
		}
		right := slices.Clone(full[at:])
		clear(full[at:])
		x.chunks[chunk] = full[:at]
		x.chunks = slices.Insert(x.chunks, chunk+1, right)
	}
}

func (x *index) remove(key string) {
	chunk, i, found := x.find(key)
	if !found {
		return
	}
	x.chunks[chunk] = slices.Delete(x.chunks[chunk], i, i+1)
	if len(x.chunks[chunk]) == 0 {
		x.chunks = slices.Delete(x.chunks, chunk, chunk+1)
	}
}

// page appends to buf, up to limit entries in all, the entries under prefix that come after the
// key from, or at it if inclusive.
func (x *index) page(buf []*entry, prefix, from string, inclusive bool, limit int) []*entry {
	chunk, i, found := x.find(from)
	if found && !inclusive {
		i++
	}
	for ; chunk < len(x.chunks); chunk, i = chunk+1, 0 {
		for _, e := range x.chunks[chunk][i:] {
			if len(buf) == limit || !strings.HasPrefix(e.key, prefix) {
				return buf
			}
			buf = append(buf, e)
		}
	}
	return buf
}
