package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/slipway-dev/slipway/backend"
)

// List calls a plug-in that yields a sequence and returns all elements. More than limit elements
// are an error, because input from outside must be bounded.
func List[T any](ctx context.Context, g *Guard, role, key string, limit int, f func(context.Context) iter.Seq2[T, error]) ([]T, error) {
	return Call(ctx, g, role, key, func(ctx context.Context) ([]T, error) {
		var all []T
		for v, err := range f(ctx) {
			if err != nil {
				return nil, err
			}
			if len(all) == limit {
				return nil, fmt.Errorf("%s of %s yields more than %d elements: %w", role, key, limit, backend.ErrPermanent)
			}
			all = append(all, v)
		}
		return all, ctx.Err()
	})
}

// element is an element that a plug-in yielded.
type element[T any] struct {
	value T
	err   error
}

// Stream calls a plug-in that yields an endless sequence, and yields its elements until ctx ends or
// the consumer breaks. It has no deadline. A plug-in that does not return then is left behind as by
// [Call].
func Stream[T any](ctx context.Context, g *Guard, role, key string, f func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if g.behind.has(key) {
			yield(none, fmt.Errorf("%s of %s: %w", role, key, errLeftBehind))
			return
		}
		inner, cancel := context.WithCancel(ctx)
		c := &pluginCall[struct{}]{role: role, done: make(chan struct{})}
		elements := make(chan element[T])
		go c.run(g, key, func() (struct{}, error) { return struct{}{}, pump(inner, f, elements) })
		err := drain(ctx, c.done, elements, yield)
		cancel()
		if _, late := c.late(inner, g, role, key); err == nil && late != nil {
			err = late
		}
		if err != nil && !errors.Is(err, errBroken) {
			yield(none, err)
		}
	}
}

// errBroken reports that the consumer wants no more elements.
var errBroken = fmt.Errorf("the consumer left: %w", context.Canceled)

// pump sends the elements of a plug-in until ctx ends.
func pump[T any](ctx context.Context, f func(context.Context) iter.Seq2[T, error], to chan<- element[T]) error {
	for v, err := range f(ctx) {
		select {
		case to <- element[T]{v, err}:
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return nil
		}
	}
	return nil
}

// drain yields elements. It returns nil if the plug-in has ended, errBroken if the consumer breaks
// or the plug-in yielded an error, and otherwise the error of ctx.
func drain[T any](ctx context.Context, done <-chan struct{}, elements <-chan element[T], yield func(T, error) bool) error {
	for {
		select {
		case e := <-elements:
			if !yield(e.value, e.err) || e.err != nil {
				return errBroken
			}
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
