package bolt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/feed"
)

// Store is a [backend.Store], [backend.Watcher] and [backend.Batcher] in a file. Its methods may
// be called concurrently. A revision is the number of the write among all writes of the store since
// the file was made.
type Store struct {
	path      string
	options   Options
	committer committer
	counted   counters
	feed      feed.Feed
	close     sync.Once
	closed    error
	slow      func()         // called before and after each commit, by tests
	old       sync.WaitGroup // files that a compaction replaced and readers still use

	// mu is held for moments only. bbolt shows a commit to readers before it is synced, so readers
	// look into before first during a commit.
	mu           sync.RWMutex
	db           *database
	head         head
	before       past
	failed       error // the error of every call, once it is set
	boltPanicked bool  // bbolt panicked, and may still hold its locks
}

// committer has the channels of the goroutine that commits, and its own state.
type committer struct {
	requests chan *request
	closing  chan struct{}
	done     chan struct{} // closed when the goroutine has ended
	// lastBatch is the number of requests that the last commit answered, and lastTook its duration.
	// Only the goroutine uses them.
	lastBatch int
	lastTook  time.Duration
}

// counters are the numbers of [Stats] that need no lock.
type counters struct{ commits, syncs, size atomic.Int64 }

var (
	_ backend.Watcher = (*Store)(nil)
	_ backend.Batcher = (*Store)(nil)
)

// Stats are numbers of operations since the store was opened, and the current size of the store.
type Stats struct {
	// Commits is the number of written transactions, Syncs the number of syncs of the file for them.
	Commits, Syncs int64
	// Records is the number of records.
	Records int64
	// FileBytes is the size of the file.
	FileBytes int64
}

// Stats returns the current counts.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Stats{Commits: s.counted.commits.Load(), Syncs: s.counted.syncs.Load(), Records: int64(s.head.records), FileBytes: s.counted.size.Load()}
}

// database is a bbolt database. bbolt's Close blocks new readers while it waits for running ones,
// so backups are waited for first.
type database struct {
	*bbolt.DB
	backups sync.WaitGroup
}

func (db *database) close() error {
	db.backups.Wait()
	return guarded(db.Close)
}

// view calls f with the synced records: a record in past replaces the record of the bucket. join,
// if not nil, is called at the moment of that state.
func (s *Store) view(join func(), f func(b *bbolt.Bucket, before past) error) error {
	return s.breakIfPanicked(guarded(func() error {
		tx, before, err := s.begin(join)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // it only reads
		return f(tx.Bucket([]byte(recordsBucket)), before)
	}))
}

// breakIfPanicked makes every later call fail if err is errBoltPanicked.
func (s *Store) breakIfPanicked(err error) error {
	if !errors.Is(err, errBoltPanicked) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.boltPanicked = true
		s.failLocked(fmt.Errorf("%w: %w", ErrBroken, err))
	}
	return s.failed
}

// failLocked makes every later call fail with err, and ends every watch.
func (s *Store) failLocked(err error) {
	s.failed = err
	s.feed.End(failed("watch", s.path, err))
}

func (s *Store) begin(join func()) (*bbolt.Tx, past, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.failed != nil {
		return nil, nil, s.failed
	}
	if join != nil {
		join()
	}
	tx, err := s.db.Begin(false)
	return tx, s.before, err
}

// Get returns the record of key. See [backend.Store].
func (s *Store) Get(ctx context.Context, key string) (backend.Record, error) {
	if err := admit(ctx, key, nil); err != nil {
		return backend.Record{}, failed("get", key, err)
	}
	var rec backend.Record
	err := s.view(nil, func(b *bbolt.Bucket, before past) error {
		stored, ok := before[key]
		if !ok {
			stored = b.Get([]byte(key))
		}
		if stored == nil {
			return backend.ErrNotFound
		}
		var err error
		rec, err = record([]byte(key), stored)
		return err
	})
	if err != nil {
		return backend.Record{}, failed("get", key, err)
	}
	return rec, nil
}

// record returns a stored record that shares nothing with the file.
func record(key, stored []byte) (backend.Record, error) {
	value, rev, _, err := unsealed(key, stored)
	if err != nil {
		return backend.Record{}, err
	}
	return backend.Record{Key: string(key), Value: append([]byte{}, value...), Revision: revision(rev)}, nil
}

// A list copies at most listRecords or listBytes of records at a time, so that a slow consumer
// does not keep the file's pages from being reused.
const (
	listRecords = 64
	listBytes   = 1 << 20
)

// List yields the records under prefix. See [backend.Store]. It keeps no transaction open while it
// yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		for from := prefix; ; {
			page, more, err := s.page(ctx, prefix, from)
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if err != nil {
				yield(backend.Record{}, failed("list", prefix, err))
				return
			}
			if !more {
				return
			}
			from = page[len(page)-1].Key + "\x00"
		}
	}
}

// page returns the first records under prefix that are not before from, and whether there are
// more.
func (s *Store) page(ctx context.Context, prefix, from string) (page []backend.Record, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	err = s.view(nil, func(b *bbolt.Bucket, before past) error {
		size := 0
		for k, v := range before.records(b, prefix, from) {
			if len(page) == listRecords || size >= listBytes {
				more = true
				return nil
			}
			rec, err := record(k, v)
			if err != nil {
				return err
			}
			page, size = append(page, rec), size+len(rec.Value)
		}
		return nil
	})
	return page, more, err
}

// Watch yields the changes under prefix. See [backend.Watcher]. If a consumer is 65,536 different
// keys behind, its watch ends with an error.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return s.feed.Follow(ctx, prefix, func(join func()) ([]backend.Change, error) {
		var existing []backend.Change
		err := s.view(join, func(b *bbolt.Bucket, before past) error {
			for k, v := range before.records(b, prefix, prefix) {
				_, rev, _, err := unsealed(k, v)
				if err != nil {
					return err
				}
				existing = append(existing, backend.Change{Key: string(k), Revision: revision(rev)})
			}
			return nil
		})
		if err != nil {
			return nil, failed("watch", prefix, err)
		}
		return existing, nil
	})
}

// admit validates the arguments of a call before any effect.
func admit(ctx context.Context, key string, value []byte) error {
	if err := backend.ValidateKey(key); err != nil {
		return err
	}
	if err := backend.ValidateValue(value); err != nil {
		return err
	}
	return ctx.Err()
}
