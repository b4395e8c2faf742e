package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

const (
	// callTimeout is the default timeout of a call of a plug-in.
	callTimeout = 10 * time.Second
	// callGrace is the maximum time from the end of a call's context to its return.
	callGrace = time.Second
)

// errLeftBehind refuses a call while an earlier call has not returned. It is a transient error.
var errLeftBehind = errors.New("an earlier call has not returned yet")

// Guard bounds the calls of plug-ins of one role: a plug-in may panic or hang without stopping the
// engine.
//
// Every call gets a deadline. A call that does not return soon after its context ended is left
// behind in its goroutine. Until it returns, all further calls for the same key, usually a cluster,
// fail at once. So a plug-in that hangs blocks only the calls in flight for its cluster.
type Guard struct {
	timeout time.Duration
	grace   time.Duration
	behind  *callsBehind
}

// New returns a guard; a timeout that is not positive means 10 s.
func New(timeout time.Duration) *Guard {
	if timeout <= 0 {
		timeout = callTimeout
	}
	return &Guard{timeout, callGrace, &callsBehind{count: map[string]int{}}}
}

// Within returns a guard with another timeout that shares the calls left behind with g.
func (g *Guard) Within(timeout time.Duration) *Guard {
	other := *g
	other.timeout = timeout
	return &other
}

// callsBehind counts the calls that were left behind, by key.
type callsBehind struct {
	any   atomic.Int64 // so that the usual case takes no lock
	mu    sync.Mutex
	count map[string]int
}

func (b *callsBehind) has(key string) bool {
	if b.any.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count[key] > 0
}

func (b *callsBehind) add(key string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.any.Add(int64(n))
	if b.count[key] += n; b.count[key] == 0 {
		delete(b.count, key)
	}
}

// pluginCall is one call of a plug-in.
type pluginCall[T any] struct {
	role  string
	value T
	err   error
	done  chan struct{}
	// returned is false if the plug-in panicked or ended its goroutine.
	returned bool
	// state is 0 while the call runs and is awaited. The side that sets it first decides whether the
	// call was left behind.
	state atomic.Int32
}

const (
	callReturned = 1
	callBehind   = 2
)

// Call calls f, which calls a plug-in in the given role, for key. The error of a panic is
// ErrPermanent; the error of a call that was left behind wraps the error of its context. If a call
// returns after it was left behind, its result is dropped, and closed if it is an io.Closer.
func Call[T any](ctx context.Context, g *Guard, role, key string, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if g.behind.has(key) {
		return none, fmt.Errorf("%s of %s: %w", role, key, errLeftBehind)
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	c := &pluginCall[T]{role: role, done: make(chan struct{})}
	go c.run(g, key, func() (T, error) { return f(ctx) })
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return c.late(ctx, g, role, key)
	}
}

// late waits a little longer for a call whose context ended.
func (c *pluginCall[T]) late(ctx context.Context, g *Guard, role, key string) (T, error) {
	grace := time.NewTimer(g.grace)
	defer grace.Stop()
	select {
	case <-c.done:
		return c.value, c.err
	case <-grace.C:
	}
	g.behind.add(key, 1)
	if !c.state.CompareAndSwap(0, callBehind) {
		g.behind.add(key, -1)
		<-c.done
		return c.value, c.err
	}
	var none T
	return none, fmt.Errorf("%s of %s ignores that its time is over and was left behind: %w", role, key, ctx.Err())
}

// run makes the call in its own goroutine.
func (c *pluginCall[T]) run(g *Guard, key string, f func() (T, error)) {
	deepen(new(byte))
	defer c.finish(g, key)
	c.value, c.err = Recovered(c.role, f)
	c.returned = true
}

// deepen grows the stack of a goroutine at once to the size that the call of a backend over a
// network needs. Otherwise the stack would grow by doubling, and be copied each time with
// everything on it.
//
//go:noinline
func deepen(at *byte) {
	var room [callStack]byte
	room[*at] = 1
	*at = room[*at]
}

// callStack is the number of bytes of stack that deepen uses.
const callStack = 9 << 10

// finish ends the call in the goroutine of the plug-in.
func (c *pluginCall[T]) finish(g *Guard, key string) {
	if !c.returned {
		c.err = panicError(c.role, nil)
	}
	if c.state.CompareAndSwap(0, callReturned) {
		close(c.done)
		return
	}
	g.behind.add(key, -1)
	if open, ok := any(c.value).(io.Closer); ok && c.err == nil {
		_, _ = Recovered("Close", func() (struct{}, error) { return struct{}{}, open.Close() })
	}
}

// Recovered calls f and turns a panic into an error.
func Recovered[T any](role string, f func() (T, error)) (value T, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		err = panicError(role, recover())
	}()
	value, err = f()
	returned = true
	return value, err
}

// panicError returns the error of a plug-in that panicked. The value of a panic may contain
// secrets, so the error names only its type, or the text if the Go runtime itself panicked.
func panicError(role string, v any) error {
	what := fmt.Sprintf("a panic with a value of type %T", v)
	if e, ok := v.(runtime.Error); ok {
		what = "a panic: " + Clip(e.Error())
	}
	if v == nil {
		what = "it ended its goroutine"
	}
	return fmt.Errorf("%s failed by %s: %w", role, what, backend.ErrPermanent)
}
