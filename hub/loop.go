package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/slipway-dev/slipway/backend"
)

// key names an object of the Fleet API; Namespace is empty for cluster-scoped
// ones.
type key = types.NamespacedName

// loop brings objects up to date, each by one worker at a time. It is
// level-triggered: it is told which object may need something, never what.
type loop struct {
	name  string
	queue workqueue.TypedRateLimitingInterface[key]
	// sync brings one object up to date. A positive duration asks to be called
	// again after it, for what nothing tells of.
	sync func(ctx context.Context, k key) (time.Duration, error)
	// failed is told of errors.
	failed func(k key, err error)
	pace   pace
}

// retryFirst and retryMost bound how soon an object that failed is tried again.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 30 * time.Second
)

func newLoop(name string, sync func(context.Context, key) (time.Duration, error), failed func(key, error)) *loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryFirst, retryMost)
	return &loop{
		name: name, sync: sync, failed: failed,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[key]{Name: name}),
	}
}

// run works until ctx ends.
func (l *loop) run(ctx context.Context, workers int) {
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	group.Wait()
	l.queue.ShutDown()
}

func (l *loop) next(ctx context.Context) bool {
	k, over := l.queue.Get()
	if over {
		return false
	}
	defer l.queue.Done(k)
	l.pace.begun(k, time.Now())
	again, err := l.round(ctx, k)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, backend.ErrConflict):
		l.queue.AddRateLimited(k)
	case err != nil:
		l.failed(k, err)
		l.queue.AddRateLimited(k)
	default:
		l.queue.Forget(k)
		if again > 0 {
			l.queue.AddAfter(k, again)
		}
	}
	return true
}

// round is one call of sync, which a request without an answer does not hold up for
// ever.
func (l *loop) round(ctx context.Context, k key) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRound)
	defer cancel()
	return l.sync(ctx, k)
}

// longestRound is far above what one takes.
const longestRound = 5 * time.Minute

// add asks for k soon; addAfter later, once for all that is asked until then.
func (l *loop) add(k key)                           { l.queue.Add(k) }
func (l *loop) addAfter(k key, after time.Duration) { l.queue.AddAfter(k, after) }

// addPaced asks for k soon, but not within every of the last time that it was
// brought up to date.
func (l *loop) addPaced(k key, every time.Duration) {
	if wait := every - l.pace.since(k, time.Now()); wait > 0 {
		l.queue.AddAfter(k, wait)
		return
	}
	l.queue.Add(k)
}

// drop forgets an object that is gone.
func (l *loop) drop(k key) { l.pace.drop(k) }

// pace is when objects were last brought up to date.
type pace struct {
	mu   sync.Mutex
	last map[key]time.Time
}

func (p *pace) begun(k key, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil {
		p.last = map[key]time.Time{}
	}
	p.last[k] = now
}

func (p *pace) since(k key, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.last[k])
}

func (p *pace) drop(k key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, k)
}
