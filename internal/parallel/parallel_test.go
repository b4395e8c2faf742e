package parallel_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/internal/parallel"
)

var items = []int{1, 2, 3, 4, 5}

func TestEveryItemIsCalledWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		began := time.Now()
		out := slices.Sorted(parallel.Map(t.Context(), 2, items, func(_ context.Context, n int) int {
			if running.Add(1) > 2 {
				t.Error("more than two calls are running")
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return 10 * n
		}))
		if !slices.Equal(out, []int{10, 20, 30, 40, 50}) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", out, time.Since(began))
		}
	})
}

func TestBreakWaitsForRunningCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, calls atomic.Int32
		for range parallel.Map(t.Context(), 2, items, func(ctx context.Context, n int) int {
			calls.Add(1)
			running.Add(1)
			defer running.Add(-1)
			if n > 1 {
				<-ctx.Done()
			}
			return n
		}) {
			break
		}
		if running.Load() != 0 || calls.Load() > 3 {
			t.Errorf("%d calls, %d of them are running", calls.Load(), running.Load())
		}
	})
}

func TestAContextThatEndsEndsTheMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for n := range parallel.Map(ctx, 2, items, func(ctx context.Context, n int) int {
			<-ctx.Done()
			return n
		}) {
			_ = n // a call that has ended may still be yielded
		}
		if n := slices.Collect(parallel.Map(t.Context(), 2, nil, func(context.Context, int) int { return 1 })); n != nil {
			t.Errorf("%v of no items", n)
		}
	})
}
