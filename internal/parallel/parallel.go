// Package parallel is the bounded parallel map of the project.
package parallel

import (
	"context"
	"iter"
	"sync"
)

// Map yields the result of each call immediately, with at most limit calls running. If ctx ends
// or the caller leaves the loop, Map starts no further call and ends the context of running
// calls; results may be missing. It returns when no call is running.
func Map[T, R any](ctx context.Context, limit int, items []T, call func(context.Context, T) R) iter.Seq[R] {
	return func(yield func(R) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		results := make(chan R)
		go run(ctx, min(limit, len(items)), items, call, results)
		for r := range results {
			if !yield(r) {
				stop()
				for range results { // until no call is running
				}
				return
			}
		}
	}
}

// run calls call for the items with a number of workers, and closes results when all have ended.
func run[T, R any](ctx context.Context, workers int, items []T, call func(context.Context, T) R, results chan<- R) {
	defer close(results)
	todo := make(chan T)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for item := range todo {
				if ctx.Err() != nil {
					return
				}
				select {
				case results <- call(ctx, item):
				case <-ctx.Done():
				}
			}
		})
	}
	for _, item := range items {
		select {
		case todo <- item:
		case <-ctx.Done():
		}
	}
	close(todo)
	all.Wait()
}
