package watch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server of one collection. Each function receives the number of its calls so
// far.
type server struct {
	lists, watches int
	list           func(ctx context.Context, n int) (version string, err error)
	watch          func(ctx context.Context, n int) (watch.Interface, error)
}

func (s *server) client() Client {
	return Of(func(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		s.lists++
		version, err := s.list(ctx, s.lists)
		return listOf(version), err
	}, func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		s.watches++
		return s.watch(ctx, s.watches)
	})
}

func lists(context.Context, int) (string, error) { return "7", nil }

// notes is a handler that records its calls.
type notes struct {
	begun, synced int
	changes       chan string
	failures      []error
	most          int
}

func (n *notes) Begin()                     { n.begun++ }
func (n *notes) Listed(metav1.Object) error { return nil }
func (n *notes) Synced()                    { n.synced++ }
func (n *notes) Watching()                  {}
func (n *notes) Changed(_ bool, obj metav1.Object) error {
	n.changes <- obj.GetResourceVersion()
	return nil
}

func (n *notes) Failed(failures int, err error) bool {
	n.failures = append(n.failures, err)
	return failures < n.most
}

func at(version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
}

// TestLostAnswerTimesOut is about a proxy that keeps the
// connection and has lost the request.
func TestLostAnswerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		changes := watch.NewFake()
		s := &server{
			list: func(ctx context.Context, n int) (string, error) {
				if n == 1 {
					<-ctx.Done()
				}
				return "7", ctx.Err()
			},
			watch: func(ctx context.Context, n int) (watch.Interface, error) {
				if n == 1 {
					<-ctx.Done()
				}
				return changes, ctx.Err()
			},
		}
		n := &notes{changes: make(chan string), most: 10}
		done := make(chan error)
		go func() { done <- Follow(ctx, s.client(), metav1.ListOptions{}, n) }()
		go changes.Add(at("8"))
		if got := <-n.changes; got != "8" || s.lists < 2 || s.watches != 2 {
			t.Errorf("version %s, %d lists and %d watches", got, s.lists, s.watches)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, err := range n.failures {
			if errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}

// TestWatchRetriesAFailingServerForALimitedTime counts the failures of a server that fails in a
// different way at each attempt.
func TestWatchRetriesAFailingServerForALimitedTime(t *testing.T) {
	broken := errors.New("broken")
	for name, s := range map[string]*server{
		"lists":         {list: func(context.Context, int) (string, error) { return "", broken }},
		"no version":    {list: func(context.Context, int) (string, error) { return "", nil }},
		"watches":       {list: lists, watch: func(context.Context, int) (watch.Interface, error) { return nil, broken }},
		"gone":          {list: lists, watch: func(context.Context, int) (watch.Interface, error) { return nil, apierrors.NewResourceExpired("") }},
		"busy":          {list: lists, watch: func(context.Context, int) (watch.Interface, error) { return nil, apierrors.NewTooManyRequests("", 1) }},
		"empty watches": {list: lists, watch: func(context.Context, int) (watch.Interface, error) { return watch.NewEmptyWatch(), nil }},
		"events": {list: lists, watch: func(context.Context, int) (watch.Interface, error) {
			events := make(chan watch.Event, 1)
			events <- Failed(broken)
			return watch.NewProxyWatcher(events), nil
		}},
		"no objects": {list: lists, watch: func(context.Context, int) (watch.Interface, error) {
			events := make(chan watch.Event, 1)
			events <- watch.Event{Type: watch.Added, Object: &metav1.Status{}}
			return watch.NewProxyWatcher(events), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, began := &notes{most: Patience}, time.Now()
				err := Follow(t.Context(), s.client(), metav1.ListOptions{}, n)
				took := time.Since(began)
				if err == nil || len(n.failures) != Patience || !errors.Is(err, n.failures[Patience-1]) || took < time.Second || took > 30*time.Second {
					t.Errorf("after %v: %v; failures %v", took, err, n.failures)
				}
				synctest.Wait()
			})
		})
	}
}

// TestAFailureIsForgottenOnceChangesAreSeen interrupts a working watch more often than a broken
// one may fail.
func TestAFailureIsForgottenOnceChangesAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{list: lists, watch: func(_ context.Context, n int) (watch.Interface, error) {
			if n%2 == 0 {
				return nil, errors.New("broken")
			}
			w := watch.NewFakeWithChanSize(1, false)
			w.Add(at("8"))
			time.AfterFunc(time.Millisecond, w.Stop)
			return w, nil
		}}
		n := &notes{changes: make(chan string), most: 2}
		done := make(chan error)
		go func() { done <- Follow(ctx, s.client(), metav1.ListOptions{}, n) }()
		for range 5 * Patience {
			<-n.changes
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
