package member

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
)

// scope is what a feed is about: the objects of a kind, in all namespaces or one, all of them, those
// with the engine's label, or one by name.
type scope struct {
	kind      served
	namespace string
	labelled  bool
	name      string
}

// feed is a watch of an API server that several calls of Watch share. The fields after stop are
// guarded by the lock of watches.
type feed struct {
	scope
	begun chan struct{} // closed when changes are seen, or err is set
	stop  context.CancelFunc

	subs map[*subscription]struct{}
	// names are the objects there are, of a feed with the label only.
	names map[name]struct{}
	open  bool
	err   error
	// opened is when the stream was last opened. Only run has it.
	opened time.Time
}

// watches are the feeds of a connection.
type watches struct {
	client *client
	// linger is how long a feed goes on that nobody needs.
	linger time.Duration

	mu     sync.Mutex
	feeds  map[scope]*feed
	closed bool
	ending sync.WaitGroup
	gone   chan struct{} // closed by close
}

func newWatches(c *client) *watches {
	return &watches{client: c, linger: watch.FeedLinger, feeds: map[scope]*feed{}, gone: make(chan struct{})}
}

// join returns a feed that tells s of changes, a new one if there is none that works.
func (w *watches) join(at scope, s *subscription) (*feed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errConnClosed
	}
	f := w.feeds[at]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &feed{scope: at, begun: make(chan struct{}), stop: stop, subs: map[*subscription]struct{}{}, names: map[name]struct{}{}}
		w.feeds[at] = f
		w.ending.Go(func() { w.run(ctx, f) })
	}
	f.subs[s] = struct{}{}
	return f, nil
}

// leave ends what join began. A feed that nobody needs for a while stops.
func (w *watches) leave(f *feed, s *subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(f.subs, s)
	if len(f.subs) > 0 || w.closed {
		return
	}
	time.AfterFunc(w.linger, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(f.subs) == 0 && w.feeds[f.scope] == f {
			delete(w.feeds, f.scope)
			f.stop()
		}
	})
}

// close stops all feeds and waits for them.
func (w *watches) close() {
	w.mu.Lock()
	w.closed = true
	close(w.gone)
	for _, f := range w.feeds {
		f.stop()
	}
	w.mu.Unlock()
	w.ending.Wait()
}

// run keeps a feed going until it is stopped, or has failed too often.
func (w *watches) run(ctx context.Context, f *feed) {
	version, pause := "", watch.FeedPause
	for tries := 0; ; {
		began := time.Now()
		seen, err := w.follow(ctx, f, version)
		if seen != version || f.opened.After(began) && time.Since(f.opened) > time.Second {
			tries, pause = 0, watch.FeedPause
		}
		if version = seen; api.IsExpired(err) {
			version, err = "", nil
		}
		if tries++; !w.began(f) || api.IsLasting(err) || tries > watch.FeedTries || !api.Paused(ctx, pause) {
			w.fail(f, err)
			return
		}
		pause *= 2
	}
}

func (w *watches) began(f *feed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.open
}

// begin reports that the feed sees changes from now on.
func (w *watches) begin(f *feed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !f.open {
		f.open = true
		close(f.begun)
	}
}

// errInterrupted is transient.
var errInterrupted = errors.New("the watch was interrupted")

// fail takes the feed away and tells everybody who uses it.
func (w *watches) fail(f *feed, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.stop()
	if w.feeds[f.scope] == f {
		delete(w.feeds, f.scope)
	}
	switch {
	case w.closed:
		f.err = errConnClosed
	case err == nil:
		f.err = errInterrupted
	default:
		f.err = err
	}
	if !f.open {
		f.open = true
		close(f.begun)
	}
	f.wakeAll()
}

// failure returns why a feed ended, nil if it has not.
func (w *watches) failure(f *feed) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.err
}

// has reports whether an object is among those of a feed with the label.
func (w *watches) has(f *feed, n name) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := f.names[n]
	return ok
}

// refill makes names what a list said. Changes may have been missed before.
func (w *watches) refill(f *feed, names map[name]struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.names = names
	f.wakeAll()
}

// told hands on that an object changed.
func (w *watches) told(f *feed, n name, deleted bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !f.labelled:
	case deleted:
		delete(f.names, n)
	default:
		if err := w.client.limits.name(n, f.names); err != nil {
			return err
		}
		f.names[n] = struct{}{}
	}
	for s := range f.subs {
		if s.concerns(f.kind, n) {
			s.wake()
		}
	}
	return nil
}

func (f *feed) wakeAll() {
	for s := range f.subs {
		s.wake()
	}
}
