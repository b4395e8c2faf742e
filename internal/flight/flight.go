// Package flight shares one call among all concurrent callers with the same key, like
// golang.org/x/sync/singleflight, but each caller has its own context.
package flight

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// Group shares calls by key. The zero value is ready, and safe for concurrent use.
type Group[T any] struct{ calls singleflight.Group }

// Do returns the result of f, which is called once for all concurrent calls of Do with the same
// key, in a separate goroutine and with the context of one of the callers. A call with an ended
// context returns immediately with the error of this context. If f uses this context, the call
// waits for f, which must return then. A context error of f affects only the call with that
// context: the others call f again. Nothing is cached.
func (g *Group[T]) Do(ctx context.Context, key string, f func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		var own atomic.Bool // f has the context of this call
		done := g.calls.DoChan(key, func() (any, error) {
			own.Store(true)
			// Check ctx only after own is set: if the caller has already returned, f must not run.
			if err := ctx.Err(); err != nil {
				return none, err
			}
			return f(ctx)
		})
		select {
		case r := <-done:
			if !own.Load() && ctx.Err() == nil && isContextError(r.Err) {
				continue
			}
			value, _ := r.Val.(T)
			return value, r.Err
		case <-ctx.Done():
			if own.Load() {
				<-done
			}
			return none, ctx.Err()
		}
	}
}

// DoAfter is Do for a call that must not share an earlier result: f starts after the call of
// DoAfter, for this call or for another one.
func (g *Group[T]) DoAfter(ctx context.Context, key string, f func(context.Context) (T, error)) (T, error) {
	var own atomic.Bool
	first := func(ctx context.Context) (T, error) {
		own.Store(true)
		return f(ctx)
	}
	value, err := g.Do(ctx, key, first)
	if own.Load() || ctx.Err() != nil {
		return value, err
	}
	return g.Do(ctx, key, f) // the shared call may have started before; this call starts after its end
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
