package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// Index is the data that a watch keeps about its objects; see [Handler]. Its methods are called
// with the lock of the [Shared].
type Index interface {
	Begin()
	Listed(metav1.Object) error
	Synced()
	Changed(deleted bool, obj metav1.Object) error
}

// NoIndex keeps nothing.
type NoIndex struct{}

// Begin implements [Index].
func (NoIndex) Begin() {}

// Listed implements [Index].
func (NoIndex) Listed(metav1.Object) error { return nil }

// Synced implements [Index].
func (NoIndex) Synced() {}

// Changed implements [Index].
func (NoIndex) Changed(bool, metav1.Object) error { return nil }

// linger is the time that a watch without subscribers continues, because the engine often
// watches again at once.
const linger = 10 * time.Second

// Shared are watches by key; all subscribers of a key share one watch.
type Shared[K comparable, I Index] struct {
	// Open returns the parts of the watch of a key.
	Open func(K) (Client, metav1.ListOptions, I)
	// Patience is the number of failures that ends a running watch; zero means that it retries until
	// it works or fails permanently.
	Patience int

	mu     sync.Mutex
	feeds  map[K]*feed[K, I]
	closed error
	ending sync.WaitGroup
}

// feed is a shared watch. Its fields except key and begun are guarded by the lock of Shared.
type feed[K comparable, I Index] struct {
	*Shared[K, I]
	key   K
	index I
	begun chan struct{} // closed when changes are seen, or err is set
	stop  context.CancelFunc
	subs  map[*Subscription[K, I]]struct{}
	open  bool
	err   error
}

// Subscription is a set of watches with a function for their changes. Only one goroutine may use
// it.
type Subscription[K comparable, I Index] struct {
	shared *Shared[K, I]
	feeds  map[K]*feed[K, I]
	// changed is called with a changed object, or with nil if any object of the key may have changed
	// or the watch failed. It must return at once.
	changed func(K, metav1.Object)
}

// Subscribe returns a subscription without watches.
func (s *Shared[K, I]) Subscribe(changed func(K, metav1.Object)) *Subscription[K, I] {
	return &Subscription[K, I]{shared: s, feeds: map[K]*feed[K, I]{}, changed: changed}
}

// Join adds the watch of a key, and starts one if none is running. It reports whether the
// subscription did not have it before. See [Subscription.Begun].
func (s *Subscription[K, I]) Join(key K) (added bool) {
	if s.feeds[key] == nil {
		s.feeds[key] = s.shared.join(key, s)
		added = true
	}
	return added
}

// Begun waits until the watch of a key sees changes, and returns its index. It returns the error
// of a failed watch, and leaves it.
func (s *Subscription[K, I]) Begun(ctx context.Context, key K) (index I, err error) {
	f := s.feeds[key]
	select {
	case <-f.begun:
	case <-ctx.Done():
		return index, ctx.Err()
	}
	if err := s.Failure(key); err != nil {
		s.Leave(key)
		return index, err
	}
	return f.index, nil
}

// Failure returns the reason why the watch of a key ended, nil if it runs.
func (s *Subscription[K, I]) Failure(key K) error {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	return s.feeds[key].err
}

// Keys returns the keys that were joined.
func (s *Subscription[K, I]) Keys() (keys []K) {
	for key := range s.feeds {
		keys = append(keys, key)
	}
	return keys
}

// Has reports whether the watch of a key was joined.
func (s *Subscription[K, I]) Has(key K) bool { return s.feeds[key] != nil }

// Leave leaves the watch of a key. A watch without subscribers stops after a while.
func (s *Subscription[K, I]) Leave(key K) {
	s.shared.leave(s.feeds[key], s)
	delete(s.feeds, key)
}

// End leaves all watches.
func (s *Subscription[K, I]) End() {
	for key := range s.feeds {
		s.Leave(key)
	}
}

func (s *Shared[K, I]) join(key K, sub *Subscription[K, I]) *feed[K, I] {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[key]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &feed[K, I]{Shared: s, key: key, begun: make(chan struct{}), stop: stop, subs: map[*Subscription[K, I]]struct{}{}}
		if s.closed != nil {
			f.end(s.closed)
			return f
		}
		if s.feeds == nil {
			s.feeds = map[K]*feed[K, I]{}
		}
		s.feeds[key] = f
		client, options, index := s.Open(key)
		f.index = index
		s.ending.Go(func() { _ = Follow(ctx, client, options, f) })
	}
	f.subs[sub] = struct{}{}
	return f
}

func (s *Shared[K, I]) leave(f *feed[K, I], sub *Subscription[K, I]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(f.subs, sub)
	if len(f.subs) > 0 || f.err != nil {
		return
	}
	time.AfterFunc(linger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(f.subs) == 0 && f.err == nil {
			f.end(context.Canceled)
		}
	})
}

// Keys returns the keys of the running watches.
func (s *Shared[K, I]) Keys() []K {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.feeds))
}

// Close ends all watches with err, now and later, and waits for their end.
func (s *Shared[K, I]) Close(err error) {
	s.mu.Lock()
	s.closed = err
	for _, f := range s.feeds {
		f.end(err)
	}
	s.mu.Unlock()
	s.ending.Wait()
}

// end ends a feed, with the lock held.
func (f *feed[K, I]) end(err error) {
	f.stop()
	if f.feeds[f.key] == f {
		delete(f.feeds, f.key)
	}
	f.err = err
	f.wake()
}

// wake announces that changes are seen from now on, or no longer, and that some may have been
// missed before.
func (f *feed[K, I]) wake() {
	if !f.open {
		f.open = true
		close(f.begun)
	}
	for sub := range f.subs {
		sub.changed(f.key, nil)
	}
}

// Begin, Listed, Synced, Watching, Changed and Failed make a feed a [Handler].
func (f *feed[K, I]) Begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index.Begin()
}

func (f *feed[K, I]) Listed(obj metav1.Object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index.Listed(obj)
}

func (f *feed[K, I]) Synced() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.index.Synced()
}

func (f *feed[K, I]) Watching() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.wake()
	}
}

func (f *feed[K, I]) Changed(deleted bool, obj metav1.Object) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.index.Changed(deleted, obj); err != nil {
		return err
	}
	for sub := range f.subs {
		sub.changed(f.key, obj)
	}
	return nil
}

// Failed ends a feed that cannot begin, fails permanently or has failed too often.
func (f *feed[K, I]) Failed(failures int, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open && !api.IsLasting(err) && (f.Patience == 0 || failures < f.Patience) {
		return true
	}
	if f.err == nil {
		f.end(err)
	}
	return false
}
