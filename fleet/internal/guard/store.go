package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// Store wraps the host's store: it gives every call a deadline, and turns a panic into an error.
// Unlike other plug-ins the store is trusted to return when its context ends.
func Store(s backend.Store, timeout time.Duration) backend.Store {
	safe := storeBehindGuard{s, timeout}
	if w, ok := s.(backend.Watcher); ok {
		return watchedBehindGuard{safe, w}
	}
	return safe
}

type storeBehindGuard struct {
	store   backend.Store
	timeout time.Duration
}

// Get calls the host's store.
func (s storeBehindGuard) Get(ctx context.Context, key string) (backend.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return Recovered("Store", func() (backend.Record, error) { return s.store.Get(ctx, key) })
}

// Put calls the host's store.
func (s storeBehindGuard) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return Recovered("Store", func() (backend.Revision, error) { return s.store.Put(ctx, key, value, prev) })
}

// Delete calls the host's store.
func (s storeBehindGuard) Delete(ctx context.Context, key string, prev backend.Revision) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := Recovered("Store", func() (struct{}, error) { return struct{}{}, s.store.Delete(ctx, key, prev) })
	return err
}

// WriteAll calls the host's store. If the store makes one write at a time, each write has its own
// deadline.
func (s storeBehindGuard) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	batcher, ok := s.store.(backend.Batcher)
	if !ok {
		return backend.WriteAll(ctx, struct{ backend.Store }{s}, writes)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return Recovered("Store", func() ([]backend.Revision, error) { return batcher.WriteAll(ctx, writes) })
}

// List calls the host's store. The consumer may take any time, but each record must arrive within
// the timeout of a call.
func (s storeBehindGuard) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		late := time.AfterFunc(s.timeout, func() { cancel(context.DeadlineExceeded) })
		defer late.Stop()
		for rec, err := range s.store.List(ctx, prefix) {
			late.Stop()
			if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				err = fmt.Errorf("list %s: no record came for %v: %w", prefix, s.timeout, context.DeadlineExceeded)
			}
			if !yield(rec, err) {
				return
			}
			late.Reset(s.timeout)
		}
	}
}

type watchedBehindGuard struct {
	storeBehindGuard
	watcher backend.Watcher
}

// Watch calls the host's store; it continues until the consumer leaves.
func (s watchedBehindGuard) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return s.watcher.Watch(ctx, prefix)
}
