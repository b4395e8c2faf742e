package driftwatch

import (
	"context"
	"iter"
	"sync"
)

// surveyors is how many clusters a report reads at the same time.
const surveyors = 32

// Surveyed yields the result of look for each cluster, as soon as there is one. It returns once no call of
// look is running.
func Surveyed[C, T any](ctx context.Context, clusters []C, look func(context.Context, C) T) iter.Seq[T] {
	return func(yield func(T) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		out := make(chan T)
		go fanOut(ctx, clusters, look, out)
		for found := range out {
			if !yield(found) {
				stop()
				for range out { // until no call is running
				}
				return
			}
		}
	}
}

// fanOut calls look for the clusters, a few at a time, and closes out when all are done.
func fanOut[C, T any](ctx context.Context, clusters []C, look func(context.Context, C) T, out chan<- T) {
	defer close(out)
	todo := make(chan C)
	var all sync.WaitGroup
	for range min(surveyors, len(clusters)) {
		all.Go(func() {
			for c := range todo {
				select {
				case out <- look(ctx, c):
				case <-ctx.Done():
				}
			}
		})
	}
	for _, c := range clusters {
		select {
		case todo <- c:
		case <-ctx.Done():
		}
	}
	close(todo)
	all.Wait()
}
