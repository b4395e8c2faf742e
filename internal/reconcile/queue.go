// Package reconcile has the work queue that everything which is brought up to date by key goes through: runs,
// placements, clusters. It is client-go's work queue with one goroutine for each key that is due, one backoff, and
// one place where a panic ends.
//
// A queue is level-triggered: it is told which key may need something, never what. What happens while a key is
// reconciled has it reconciled once more afterwards.
package reconcile

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Options are what a [Queue] is made of.
type Options[K comparable] struct {
	// Reconcile brings a key up to date. It is called for one key by one goroutine at a time, and for different
	// keys concurrently. Where after is positive it is called again then, for what nothing tells of. After an
	// error, or a panic, it is called again after a wait that doubles with each error in a row.
	//
	// ctx is that of [Queue.Run]. Reconcile bounds its calls that may hang: nothing else of the key is done
	// meanwhile.
	Reconcile func(ctx context.Context, key K) (after time.Duration, err error)
	// Failed is told of every error, a [PanicError] where Reconcile panicked; not of those that come of the end
	// of ctx. It is called before the key is reconciled again.
	Failed func(ctx context.Context, key K, err error)
	// First is the wait after an error, Most the longest one.
	First, Most time.Duration
	// AtLeast, where it is not nil, is the shortest wait after an error, for those that do not go away soon.
	AtLeast func(err error) time.Duration
	// Name is that of the queue in Metrics, which may be nil.
	Name    string
	Metrics Metrics
	// Workers is how many keys are reconciled at a time; 0 is all that are due.
	Workers int
	// RetryOnAdd has Add cut the wait after an error short, where what is added is what people changed; the wait
	// after the next error is longer all the same.
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

// Queue has keys reconciled. Its methods may be called concurrently.
type Queue[K comparable] struct {
	o       Options[K]
	keys    workqueue.TypedDelayingInterface[K]
	backoff workqueue.TypedRateLimiter[K]

	mu sync.Mutex
	// until is when the wait after the last error of a key ends.
	until map[K]time.Time
	// began is when a key was reconciled last, of those that AddPaced was told of.
	began map[K]time.Time
}

// New returns an empty queue.
func New[K comparable](o Options[K]) *Queue[K] {
	return &Queue[K]{
		o: o, keys: newKeys(o), until: map[K]time.Time{}, began: map[K]time.Time{},
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[K](o.First, o.Most),
	}
}

// newKeys returns the queue of the keys, which is measured where the options say so.
func newKeys[K comparable](o Options[K]) workqueue.TypedDelayingInterface[K] {
	if o.Metrics == nil {
		return workqueue.NewTypedDelayingQueue[K]()
	}
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: o.Name, MetricsProvider: o.Metrics})
}

// Add has a key reconciled soon, or, where it failed, when the wait after that is over, unless RetryOnAdd is set: what
// changes about a key that fails is mostly the doing of the engines that fail.
func (q *Queue[K]) Add(key K) { q.keys.Add(key) }

// AddAfter has a key reconciled after a wait, or sooner.
func (q *Queue[K]) AddAfter(key K, wait time.Duration) { q.keys.AddAfter(key, wait) }

// AddPaced has a key reconciled soon, but not within every of the last time that this began.
func (q *Queue[K]) AddPaced(key K, every time.Duration) {
	q.mu.Lock()
	last := q.began[key]
	q.began[key] = last // from now on it is kept
	q.mu.Unlock()
	wait := every - time.Since(last)
	if wait > 0 {
		q.keys.AddAfter(key, wait)
		return
	}
	q.keys.Add(key)
}

// Hasten has the next AddPaced of a key not wait, for what was just begun and is waited for.
func (q *Queue[K]) Hasten(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, paced := q.began[key]; paced {
		q.began[key] = time.Time{}
	}
}

// AddNow has a key reconciled soon, as if it had never failed.
func (q *Queue[K]) AddNow(key K) {
	q.Forget(key)
	q.keys.Add(key)
}

// Forget drops what is known of a key: how often it failed.
func (q *Queue[K]) Forget(key K) {
	q.backoff.Forget(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.until, key)
}

// Drop forgets a key that there will be no more: how often it failed, and when it was reconciled.
func (q *Queue[K]) Drop(key K) {
	q.Forget(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.began, key)
}

// Len returns how many keys are due.
func (q *Queue[K]) Len() int { return q.keys.Len() }

// Failures returns how often a key failed in a row.
func (q *Queue[K]) Failures(key K) int { return q.backoff.NumRequeues(key) }

// begins keeps when a key is reconciled, for AddPaced.
func (q *Queue[K]) begins(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, paced := q.began[key]; paced {
		q.began[key] = time.Now()
	}
}

// waits returns how long the wait after the last error of a key still lasts.
func (q *Queue[K]) waits(key K) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Until(q.until[key])
}

// Run reconciles what is added, and what was added before, until ctx ends. It returns when no call of Reconcile is
// running, and is called once.
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

// ShutDown ends a queue that was not run; [Queue.Run] ends with its ctx.
func (q *Queue[K]) ShutDown() { q.keys.ShutDown() }

// reconcile reconciles a key once, and has it done again when it is due.
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
