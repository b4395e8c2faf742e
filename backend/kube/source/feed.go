package source

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/slipway-dev/slipway/snapshot"
)

// sourceFeed watches the metadata of one kind in all namespaces, for everybody
// who watches the source. Its fields but kind and begun are guarded by the lock
// of sourceFeeds.
type sourceFeed struct {
	kind  hubKind
	begun chan struct{} // closed when changes are seen, or err is set
	stop  context.CancelFunc
	subs  map[*sourceWatch]struct{}
	open  bool
	err   error
}

// sourceFeeds are the feeds of a source.
type sourceFeeds struct {
	metadata metadata.Interface

	mu     sync.Mutex
	feeds  map[schema.GroupVersionResource]*sourceFeed
	closed bool
	ending sync.WaitGroup
}

var errSourceClosed = errors.New("the source was closed")

func newSourceFeeds(m metadata.Interface) *sourceFeeds {
	return &sourceFeeds{metadata: m, feeds: map[schema.GroupVersionResource]*sourceFeed{}}
}

// join returns the feed of a kind, which tells w of changes from now on, or soon:
// see [sourceFeed.begun].
func (s *sourceFeeds) join(kind hubKind, w *sourceWatch) (*sourceFeed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, api.Permanent(errSourceClosed)
	}
	f := s.feeds[kind.resource]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &sourceFeed{kind: kind, begun: make(chan struct{}), stop: stop, subs: map[*sourceWatch]struct{}{}}
		s.feeds[kind.resource] = f
		s.ending.Go(func() { s.run(ctx, f) })
	}
	f.subs[w] = struct{}{}
	return f, nil
}

// leave ends what join began. A feed that nobody needs for a while stops.
func (s *sourceFeeds) leave(f *sourceFeed, w *sourceWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(f.subs, w)
	if len(f.subs) > 0 || s.closed || f.err != nil {
		return
	}
	time.AfterFunc(watch.FeedLinger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(f.subs) == 0 && s.feeds[f.kind.resource] == f {
			delete(s.feeds, f.kind.resource)
			f.stop()
		}
	})
}

func (s *sourceFeeds) close() {
	s.mu.Lock()
	s.closed = true
	for _, f := range s.feeds {
		s.end(f, api.Permanent(errSourceClosed))
	}
	s.mu.Unlock()
	s.ending.Wait()
}

// failure returns why a feed ended, nil if it has not.
func (s *sourceFeeds) failure(f *sourceFeed) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.err
}

func (s *sourceFeeds) run(ctx context.Context, f *sourceFeed) {
	changes := watch.Reflector{
		From:   watch.MetadataOnly{From: s.metadata.Resource(f.kind.resource)},
		Begin:  func([]metav1.Object) { s.begin(f) },
		Event:  func(_ bool, obj metav1.Object) { s.told(f, obj) },
		Failed: func(err error) { s.fail(f, err) },
	}
	changes.Run(ctx)
}

// begin reports that what changes from now on is seen, and that something may have
// changed before.
func (s *sourceFeeds) begin(f *sourceFeed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.open {
		f.open = true
		close(f.begun)
	}
	for w := range f.subs {
		w.wake(f.kind)
	}
}

// fail ends a feed that cannot begin, or will not work again by trying. One that
// is interrupted goes on when it can, and says then that something may have
// changed.
func (s *sourceFeeds) fail(f *sourceFeed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.open || api.IsLasting(err) {
		s.end(f, err)
	}
}

func (s *sourceFeeds) end(f *sourceFeed, err error) {
	f.stop()
	if s.feeds[f.kind.resource] == f {
		delete(s.feeds, f.kind.resource)
	}
	f.err = err
	if !f.open {
		f.open = true
		close(f.begun)
	}
	for w := range f.subs {
		w.wake(f.kind)
	}
}

// told hands on that an object changed.
func (s *sourceFeeds) told(f *sourceFeed, obj metav1.Object) {
	id := snapshot.ID{Group: f.kind.gvk.Group, Version: f.kind.gvk.Version, Kind: f.kind.gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if f.kind.gvk.GroupKind() != definitionKind() && !isPlaced(id) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range f.subs {
		w.heed(f.kind, id)
	}
}
