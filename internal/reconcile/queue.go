// Package reconcile is the work queue for everything that is reconciled by key: runs, placements,
// clusters. It is client-go's work queue with one goroutine for each due key, a backoff, and
// recovery from panics.
//
// The queue is level-triggered: a caller adds the key of an item that may need work, but not the
// reason. A key that is added during its reconciliation is reconciled once more afterwards.
package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Options configure a [Queue].
type Options[K comparable] struct {
	// Reconcile brings a key up to date. It is called for one key by one goroutine at a time, and
	// for different keys concurrently. If after is positive, it is called again after this time, for
	// changes without a notification. After an error or a panic it is called again after a wait that
	// doubles with each consecutive error.
	//
	// ctx is the context of [Queue.Run]. Reconcile must limit calls that may hang, because no other
	// work of the key is done at the same time.
	Reconcile func(ctx context.Context, key K) (after time.Duration, err error)
	// Failed receives every error, and a [PanicError] if Reconcile panicked, but no error caused by
	// the end of ctx. It is called before the key is reconciled again.
	Failed func(ctx context.Context, key K, err error)
	// First is the wait after the first error, Most the longest wait.
	First, Most time.Duration
	// AtLeast, if it is not nil, returns the shortest wait after an error, for errors that last
	// long.
	AtLeast func(err error) time.Duration
	// Name is the name of the queue in Metrics. Metrics may be nil.
	Name    string
	Metrics Metrics
	// Workers is the maximum number of keys that are reconciled at a time; 0 means no limit.
	Workers int
	// RetryOnAdd lets Add end the wait after an error early, for keys that people change. The wait
	// after the next error is still longer.
	RetryOnAdd bool
}

// Metrics measures queues by their names.
type Metrics = workqueue.MetricsProvider

// PanicError is a panic of Reconcile.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Queue reconciles keys. Its methods may be called concurrently.
type Queue[K comparable] struct {
	o       Options[K]
	keys    workqueue.TypedDelayingInterface[K]
	backoff workqueue.TypedRateLimiter[K]

	mu sync.Mutex
	// until is the end of the wait after a key's last error.
	until map[K]time.Time
	// began is the time of the last reconciliation of the keys of AddPaced.
	began map[K]time.Time
}

// New returns an empty queue.
func New[K comparable](o Options[K]) *Queue[K] {
	return &Queue[K]{
		o: o, keys: newKeys(o), until: map[K]time.Time{}, began: map[K]time.Time{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.First, o.Most),
	}
}

// newKeys returns the queue of the keys, with metrics if the options have them.
func newKeys[K comparable](o Options[K]) workqueue.TypedDelayingInterface[K] {
	if o.Metrics == nil {
		return workqueue.NewTypedDelayingQueue[K]()
	}
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: o.Name, MetricsProvider: o.Metrics})
}

// Add requests a reconciliation of a key soon. If the key failed, it waits until the end of the
// backoff unless RetryOnAdd is set, because the failing engines themselves cause most changes of
// a failing key.
func (q *Queue[K]) Add(key K) { q.keys.Add(key) }

// AddAfter requests a reconciliation of a key after a wait, or sooner.
func (q *Queue[K]) AddAfter(key K, wait time.Duration) { q.keys.AddAfter(key, wait) }

// AddPaced requests a reconciliation of a key soon, but no sooner than every after the start of
// the last one.
func (q *Queue[K]) AddPaced(key K, every time.Duration) {
	q.mu.Lock()
	last := q.began[key]
	q.began[key] = last // from now on the time is kept
	q.mu.Unlock()
	wait := every - time.Since(last)
	if wait > 0 {
		q.keys.AddAfter(key, wait)
		return
	}
	q.keys.Add(key)
}

// Hasten lets the next AddPaced of a key start without a wait, for a key with an action that was
// just started.
func (q *Queue[K]) Hasten(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, paced := q.began[key]; paced {
		q.began[key] = time.Time{}
	}
}

// AddNow requests a reconciliation of a key soon, as if it had never failed.
func (q *Queue[K]) AddNow(key K) {
	q.Forget(key)
	q.keys.Add(key)
}

// Forget resets the failure count and the backoff of a key.
func (q *Queue[K]) Forget(key K) {
	q.backoff.Forget(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.until, key)
}

// Drop removes all state of a key that no longer exists: its failures and the time of its last
// reconciliation.
func (q *Queue[K]) Drop(key K) {
	q.Forget(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.began, key)
}

// Len returns how many keys are due.
func (q *Queue[K]) Len() int { return q.keys.Len() }

// Failures returns the number of consecutive failures of a key.
func (q *Queue[K]) Failures(key K) int { return q.backoff.NumRequeues(key) }

// begins records the start of a key's reconciliation for AddPaced.
func (q *Queue[K]) begins(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, paced := q.began[key]; paced {
		q.began[key] = time.Now()
	}
}

// waits returns the remaining wait after a key's last error.
func (q *Queue[K]) waits(key K) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Until(q.until[key])
}

// Run reconciles all keys added before and during the call until ctx ends. It returns when no
// call of Reconcile is running, and must be called once.
func (q *Queue[K]) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, q.keys.ShutDown)()
	var slots chan struct{}
	if q.o.Workers > 0 {
		slots = make(chan struct{}, q.o.Workers)
	}
	var calls sync.WaitGroup
	for {
		key, over := q.keys.Get()
		if over {
			break
		}
		if slots != nil {
			slots <- struct{}{}
		}
		calls.Go(func() {
			defer q.keys.Done(key)
			if slots != nil {
				defer func() { <-slots }()
			}
			q.reconcile(ctx, key)
		})
	}
	calls.Wait()
}

// ShutDown ends a queue without a call of Run; [Queue.Run] ends with its ctx.
func (q *Queue[K]) ShutDown() { q.keys.ShutDown() }

// reconcile reconciles a key once, and schedules its next reconciliation.
func (q *Queue[K]) reconcile(ctx context.Context, key K) {
	if ctx.Err() != nil {
		return
	}
	if wait := q.waits(key); wait > 0 && !q.o.RetryOnAdd {
		q.keys.AddAfter(key, wait)
		return
	}
	q.begins(key)
	after, err := q.call(ctx, key)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		wait := q.backoff.When(key)
		if q.o.AtLeast != nil {
			wait = max(wait, q.o.AtLeast(err))
		}
		q.mu.Lock()
		q.until[key] = time.Now().Add(wait)
		q.mu.Unlock()
		q.o.Failed(ctx, key, err)
		q.AddAfter(key, wait)
	default:
		q.Forget(key)
		if after > 0 {
			q.keys.AddAfter(key, after)
		}
	}
}

func (q *Queue[K]) call(ctx context.Context, key K) (after time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return q.o.Reconcile(ctx, key)
}
