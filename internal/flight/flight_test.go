package flight

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestACallIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[int]
		var calls atomic.Int32
		boom := errors.New("boom")
		for _, want := range []error{nil, boom, nil} {
			calls.Store(0)
			for range 100 {
				go func() {
					n, err := g.Do(t.Context(), "key", func(context.Context) (int, error) {
						time.Sleep(time.Second)
						calls.Add(1)
						return 7, want
					})
					if n != 7 || !errors.Is(err, want) {
						t.Errorf("%d, %v", n, err)
					}
				}()
			}
			time.Sleep(2 * time.Second)
			if calls.Load() != 1 {
				t.Errorf("%d calls", calls.Load())
			}
		}
	})
}

// The context of one call is not the failure of the others, whichever began.
func TestCancellationAffectsOnlyItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for ending := range 2 {
			var g Group[int]
			var calls, going atomic.Int32
			f := func(ctx context.Context) (int, error) {
				calls.Add(1)
				going.Add(1)
				defer going.Add(-1)
				select {
				case <-ctx.Done():
					return 0, ctx.Err()
				case <-time.After(10 * time.Second):
					return 7, nil
				}
			}
			for i := range 2 {
				ctx, want := t.Context(), error(nil)
				if i == ending {
					short, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					ctx, want = short, context.DeadlineExceeded
				}
				begin := time.Now()
				go func() {
					_, err := g.Do(ctx, "key", f)
					if !errors.Is(err, want) || want != nil && time.Since(begin) != time.Second {
						t.Errorf("%v after %v, want %v", err, time.Since(begin), want)
					}
					if want != nil && ending == 0 && calls.Load() == 1 && going.Load() != 0 {
						t.Error("the call returned before its f")
					}
				}()
				synctest.Wait()
			}
			time.Sleep(time.Minute)
			if got, want := int(calls.Load()), 2-ending; got != want {
				t.Errorf("call %d ended: %d calls of f, want %d", ending, got, want)
			}
		}
	})
}

// A timeout that f sets itself is its answer to the call whose context it has.
func TestATimeoutOfFIsReturned(t *testing.T) {
	var g Group[int]
	if _, err := g.Do(t.Context(), "key", func(context.Context) (int, error) { return 0, context.DeadlineExceeded }); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f := func(context.Context) (int, error) { t.Error("f was called"); return 0, nil }
	if _, err := g.Do(gone, "key", f); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestDoAfterGetsNothingThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group[time.Time]
		var calls atomic.Int32
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				began, err := g.DoAfter(t.Context(), "key", func(context.Context) (time.Time, error) {
					calls.Add(1)
					began := time.Now()
					time.Sleep(25 * time.Millisecond)
					return began, nil
				})
				if err != nil || began.Before(asked) {
					t.Errorf("asked at %v, found at %v: %v", asked, began, err)
				}
			})
		}
		all.Wait()
		if calls.Load() > 10 {
			t.Errorf("%d calls, want that they are shared", calls.Load())
		}
	})
}
