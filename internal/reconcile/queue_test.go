package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/internal/reconcile"
)

var errBoom = errors.New("boom")

// calls records when keys are reconciled.
type calls struct {
	mu    sync.Mutex
	began time.Time
	at    []string
}

func (c *calls) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, fmt.Sprintf("%s %v", what, time.Since(c.began)))
}

func (c *calls) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.at = nil }()
	return strings.Join(c.at, ", ")
}

// run runs a queue for the time of a test, in synthetic time.
func run(t *testing.T, o reconcile.Options[string], do func(q *reconcile.Queue[string])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Failed == nil {
			o.Failed = func(context.Context, string, error) {}
		}
		o.First, o.Most = time.Second, 4*time.Second
		q := reconcile.New(o)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { q.Run(ctx) })
		do(q)
		cancel()
		running.Wait()
	})
}

func TestWaitsAfterErrorsDoubleAndNoEventCutsThemShort(t *testing.T) {
	var c calls
	fails := atomic.Int32{}
	fails.Store(4)
	run(t, reconcile.Options[string]{
		Reconcile: func(_ context.Context, key string) (time.Duration, error) {
			c.add(key)
			if fails.Add(-1) >= 0 {
				return 0, errBoom
			}
			return 0, nil
		},
		Failed: func(_ context.Context, _ string, err error) { c.add(err.Error()) },
	}, func(q *reconcile.Queue[string]) {
		c.began = time.Now()
		q.Add("a")
		for range 150 { // events every 0.1 s
			time.Sleep(100 * time.Millisecond)
			if time.Since(c.began) < 8*time.Second {
				q.Add("a")
			}
		}
		want := "a 0s, boom 0s, a 1s, boom 1s, a 3s, boom 3s, a 7s, boom 7s, a 11s"
		if got := c.take(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		fails.Store(1)
		c.began = time.Now()
		q.Add("a")
		time.Sleep(500 * time.Millisecond)
		q.AddNow("a")
		time.Sleep(10 * time.Second)
		if got, want := c.take(), "a 0s, boom 0s, a 500ms, a 1s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

func TestAKeyIsReconciledByOneGoroutineAndAgainAfterAConcurrentAdd(t *testing.T) {
	var c calls
	var now atomic.Int32
	run(t, reconcile.Options[string]{Reconcile: func(_ context.Context, key string) (time.Duration, error) {
		if key == "a" && now.Add(1) > 1 {
			t.Error("two goroutines reconcile a key")
		}
		c.add(key)
		time.Sleep(time.Second)
		if key == "a" {
			now.Add(-1)
		}
		return 0, nil
	}}, func(q *reconcile.Queue[string]) {
		c.began = time.Now()
		q.Add("a")
		time.Sleep(100 * time.Millisecond)
		q.Add("b") // another key does not wait
		for range 10 {
			q.Add("a")
		}
		time.Sleep(5 * time.Second)
		if got, want := c.take(), "a 0s, b 100ms, a 1s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

func TestAKeyThatAsksForItIsReconciledAgain(t *testing.T) {
	var c calls
	run(t, reconcile.Options[string]{Reconcile: func(_ context.Context, key string) (time.Duration, error) {
		c.add(key)
		if time.Since(c.began) < 3*time.Second {
			return time.Second, nil
		}
		return 0, nil
	}}, func(q *reconcile.Queue[string]) {
		c.began = time.Now()
		q.AddAfter("a", 500*time.Millisecond)
		time.Sleep(20 * time.Second)
		if got, want := c.take(), "a 500ms, a 1.5s, a 2.5s, a 3.5s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

func TestAPanicIsAnErrorOfItsKey(t *testing.T) {
	var c calls
	var told *reconcile.PanicError
	run(t, reconcile.Options[string]{
		Reconcile: func(_ context.Context, key string) (time.Duration, error) {
			c.add(key)
			if key == "bad" && time.Since(c.began) == 0 {
				panic("out of reach")
			}
			return 0, nil
		},
		Failed:  func(_ context.Context, _ string, err error) { _ = errors.As(err, &told) },
		AtLeast: func(error) time.Duration { return time.Minute },
	}, func(q *reconcile.Queue[string]) {
		c.began = time.Now()
		q.Add("bad")
		time.Sleep(time.Second)
		q.Add("good")
		time.Sleep(2 * time.Minute)
		if got, want := c.take(), "bad 0s, good 1s, bad 1m0s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if told == nil || told.Value != "out of reach" || !strings.Contains(string(told.Stack), "queue_test.go") {
			t.Errorf("told of %v", told)
		}
	})
}

func TestWorkersBoundHowManyKeysAreReconciledAtATime(t *testing.T) {
	var now, most atomic.Int32
	run(t, reconcile.Options[string]{Workers: 3, Reconcile: func(context.Context, string) (time.Duration, error) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(time.Second)
		now.Add(-1)
		return 0, nil
	}}, func(q *reconcile.Queue[string]) {
		for k := range strings.SplitSeq("abcdefghijkl", "") {
			q.Add(k)
		}
		time.Sleep(5 * time.Second)
		if most.Load() != 3 {
			t.Errorf("%d at a time", most.Load())
		}
	})
}

func TestRunReturnsWhenNothingIsBeingReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var done []string
		q := reconcile.New(reconcile.Options[string]{First: time.Second, Most: time.Second, Reconcile: func(ctx context.Context, key string) (time.Duration, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			done = append(done, key)
			return time.Second, ctx.Err()
		}, Failed: func(context.Context, string, error) { t.Error("the end of ctx is no failure") }})
		q.Add("a") // before Run
		time.AfterFunc(time.Second, cancel)
		q.Run(ctx)
		q.Add("b")
		time.Sleep(time.Minute)
		if !slices.Equal(done, []string{"a"}) {
			t.Errorf("%v were reconciled", done)
		}
	})
}

func TestRetryOnAdd(t *testing.T) {
	var c calls
	run(t, reconcile.Options[string]{RetryOnAdd: true, Reconcile: func(_ context.Context, key string) (time.Duration, error) {
		c.add(key)
		return 0, errBoom
	}}, func(q *reconcile.Queue[string]) {
		c.began = time.Now()
		q.Add("a")
		time.Sleep(1500 * time.Millisecond) // it failed at 0 s and 1 s
		q.Add("a")
		time.Sleep(4 * time.Second)
		if n := q.Failures("a"); n != 4 {
			t.Errorf("%d failures in a row, want 4", n)
		}
		// The wait of 2 s continues together with the wait of 4 s after the third error.
		if got, want := c.take(), "a 0s, a 1s, a 1.5s, a 3s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

func TestAddPacedLimitsTheRate(t *testing.T) {
	var c calls
	run(t, reconcile.Options[string]{Reconcile: func(_ context.Context, key string) (time.Duration, error) {
		c.add(key)
		return 0, nil
	}}, func(q *reconcile.Queue[string]) {
		c.began = time.Now()
		for range 25 { // events until 3.12 s
			q.AddPaced("a", time.Second)
			time.Sleep(130 * time.Millisecond)
		}
		q.Add("a") // at 3.25 s, which does not wait
		time.Sleep(2 * time.Second)
		if got, want := c.take(), "a 0s, a 1s, a 2s, a 3s, a 3.25s, a 4s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		q.AddPaced("a", time.Second)
		q.AddPaced("a", time.Second)
		time.Sleep(100 * time.Millisecond)
		q.Hasten("a")
		q.AddPaced("a", time.Second)
		q.AddPaced("a", time.Second)
		time.Sleep(100 * time.Millisecond)
		q.AddPaced("a", time.Second)
		time.Sleep(2 * time.Second)
		if got, want := c.take(), "a 5.25s, a 5.35s, a 6.35s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		q.Drop("a")
		c.began = time.Now()
		q.AddPaced("a", time.Second)
		time.Sleep(2 * time.Second)
		if got, want := c.take(), "a 0s"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}
