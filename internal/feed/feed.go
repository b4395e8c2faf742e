// Package feed distributes the changes of keys to watchers of a store. Stores in the same process
// as their watchers share it.
package feed

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/backend"
)

// maxPending is the maximum number of changed keys that are kept for a slow consumer.
const maxPending = 1 << 16

// errOverrun ends the watch of a consumer that fell too far behind.
var errOverrun = errors.New("the watch fell behind by 65,536 keys, watch again")

// Feed sends changes to the consumers that follow it. The zero Feed is ready to use, by several
// goroutines.
type Feed struct {
	mu        sync.Mutex
	consumers map[*consumer]struct{}
	ended     error
}

// consumer is a follower of changes. The lock of the feed guards all fields except signal.
type consumer struct {
	prefix  string
	pending []backend.Change
	at      map[string]int // where a key is in pending
	overrun bool
	signal  chan struct{}
}

// Announce sends a change to the consumers. Changes of a key must be announced in the order of
// its writes.
func (f *Feed) Announce(c backend.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for w := range f.consumers {
		if strings.HasPrefix(c.Key, w.prefix) {
			w.add(c)
			Wake(w.signal)
		}
	}
}

// End ends every present and future consumer with err.
func (f *Feed) End(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = err
	for w := range f.consumers {
		Wake(w.signal)
	}
}

// Follow yields the changes that begin returns and then every change under prefix, until ctx
// ends, as [backend.Watcher] requires. begin returns the existing records. It must call join at a
// time when no change can be announced that its result lacks, and no change can be written
// without a later announcement.
func (f *Feed) Follow(ctx context.Context, prefix string, begin func(join func()) ([]backend.Change, error)) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		w := &consumer{prefix: prefix, at: map[string]int{}, signal: make(chan struct{}, 1)}
		defer f.leave(w)
		existing, err := begin(func() { f.join(w) })
		if err != nil {
			yield(backend.Change{}, err)
			return
		}
		for ok := yieldAll(ctx, existing, yield); ok; ok = f.next(ctx, w, yield) {
		}
	}
}

func (f *Feed) join(w *consumer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.consumers == nil {
		f.consumers = map[*consumer]struct{}{}
	}
	f.consumers[w] = struct{}{}
	if f.ended != nil {
		Wake(w.signal)
	}
}

func (f *Feed) leave(w *consumer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.consumers, w)
}

// next yields the next changes and reports whether to continue.
func (f *Feed) next(ctx context.Context, w *consumer, yield func(backend.Change, error) bool) bool {
	if err := Await(ctx, w.signal); err != nil {
		yield(backend.Change{}, err)
		return false
	}
	changes, err := f.take(w)
	if err != nil {
		yield(backend.Change{}, err)
		return false
	}
	return yieldAll(ctx, changes, yield)
}

func (f *Feed) take(w *consumer) ([]backend.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return nil, f.ended
	}
	if w.overrun {
		return nil, &backend.Error{Op: "watch", Object: w.prefix, Err: errOverrun}
	}
	changes := w.pending
	w.pending = nil
	clear(w.at)
	return changes, nil
}

// yieldAll yields changes until ctx ends and reports whether to continue.
func yieldAll(ctx context.Context, changes []backend.Change, yield func(backend.Change, error) bool) bool {
	for _, c := range changes {
		if ctx.Err() != nil {
			return true // the next wait returns the error
		}
		if !yield(c, nil) {
			return false
		}
	}
	return true
}

// add keeps the last change of each key.
func (w *consumer) add(c backend.Change) {
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

// Await blocks until there is a signal or ctx ends; then it returns ctx's error.
func Await(ctx context.Context, signal <-chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-signal:
	}
	return ctx.Err()
}

// Wake leaves one signal; a consumer with a pending signal needs no second one.
func Wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}
