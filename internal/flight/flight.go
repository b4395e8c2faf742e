// Package flight shares a call among all that ask for the same at the same time, as
// golang.org/x/sync/singleflight does, where each of them has a context of its own.
package flight

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// Group shares calls by key. The zero value is ready, and safe for concurrent use.
type Group[T any] struct{ calls singleflight.Group }

// Do returns what f returns, which is called once for all concurrent calls of Do with the
// same key, in a goroutine of its own and with the context of one of them. A call whose
// context ends returns at once with the error of that context; where f has its context, it
// waits for f, which is to return then. A context error of f is the failure of that call only:
// the others call again. Nothing is cached.
func (g *Group[T]) Do(ctx context.Context, key string, f func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		var own atomic.Bool // f has the context of this call
		done := g.calls.DoChan(key, func() (any, error) {
			own.Store(true)
			// Read after own was set: a call that has returned without waiting has an f
			// that does nothing.
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

// DoAfter is Do for a call that must not get what an earlier one found: f is called, or was called for another
// call, after DoAfter was.
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
	return g.Do(ctx, key, f) // the call that was shared may have begun before; this one begins after its end
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
