package guard

import (
	"context"
	"errors"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// TestT23PanicIsAnError covers threat T23: a panic of a plug-in becomes an error without its
// secrets.
func TestT23PanicIsAnError(t *testing.T) {
	g := New(0)
	for name, f := range map[string]func(){
		"text":    func() { panic("token=s3cr3t") },
		"error":   func() { panic(errors.New("token=s3cr3t")) },
		"runtime": func() { _ = []int{}[len(os.Args)] },
		"exit":    func() { runtime.Goexit() },
	} {
		_, err := Call(t.Context(), g, "Apply", "c1", func(context.Context) (int, error) { f(); return 1, nil })
		if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "Apply") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v, err := Call(t.Context(), g, "Apply", "c1", func(context.Context) (int, error) { return 7, nil }); v != 7 || err != nil {
		t.Errorf("the next call: %v, %v", v, err)
	}
}

// TestT23HangIsLeftBehindOnce covers threat T23: a plug-in that ignores its context is left behind
// once, and no further call for its cluster is made until it returns.
func TestT23HangIsLeftBehindOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(5 * time.Second)
		var calls atomic.Int32
		wake := make(chan struct{})
		hang := func(context.Context) (int, error) { calls.Add(1); <-wake; return 1, nil }
		begin := time.Now()
		_, err := Call(t.Context(), g, "Get", "c1", hang)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that hangs: %v", err)
		}
		if d := time.Since(begin); d > 7*time.Second {
			t.Errorf("it took %v", d)
		}
		begin = time.Now()
		for range 1000 {
			if _, err := Call(t.Context(), g, "Get", "c1", hang); !errors.Is(err, errLeftBehind) {
				t.Fatalf("a call while another hangs: %v", err)
			}
		}
		if calls.Load() != 1 || time.Since(begin) != 0 {
			t.Errorf("%d calls were made, in %v", calls.Load(), time.Since(begin))
		}
		if _, err := Call(t.Context(), g, "Get", "c2", func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Errorf("another cluster: %v", err)
		}
		close(wake)
		synctest.Wait()
		if _, err := Call(t.Context(), g, "Get", "c1", func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Errorf("after it returned: %v", err)
		}
	})
}

// TestDeadlineIsPassedOn checks that a plug-in that honors its context gets its deadline and is not
// left behind.
func TestDeadlineIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(3 * time.Second)
		begin := time.Now()
		_, err := Call(t.Context(), g, "Get", "c1", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 3*time.Second || g.behind.has("c1") {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestListIsBounded(t *testing.T) {
	g := New(0)
	endless := func(context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := 0; yield(i, nil); i++ {
			}
		}
	}
	if _, err := List(t.Context(), g, "Clusters", "inventory", 100, endless); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("%v", err)
	}
}

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(0)
		boom := errors.New("boom")
		three := func(end func()) func(context.Context) iter.Seq2[int, error] {
			return func(context.Context) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i := range 3 {
						if !yield(i, nil) {
							return
						}
					}
					end()
					yield(0, boom)
				}
			}
		}
		read := func(ctx context.Context, end func()) (n int, last error) {
			for _, err := range Stream(ctx, g, "Watch", "c1", three(end)) {
				if last = err; err == nil {
					n++
				}
			}
			return n, last
		}
		if n, err := read(t.Context(), func() {}); n != 3 || !errors.Is(err, boom) {
			t.Errorf("%d elements, then %v", n, err)
		}
		if n, err := read(t.Context(), func() { panic("x") }); n != 3 || !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("a panic: %d elements, then %v", n, err)
		}
		for range Stream(t.Context(), g, "Watch", "c1", three(func() {})) {
			break
		}
		wake := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if n, err := read(ctx, func() { <-wake }); n != 3 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a hang: %d elements, then %v", n, err)
		}
		if _, err := read(t.Context(), func() {}); !errors.Is(err, errLeftBehind) {
			t.Errorf("while it hangs: %v", err)
		}
		close(wake)
		synctest.Wait()
	})
}

func BenchmarkGuardedCall(b *testing.B) {
	g := New(0)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Call(ctx, g, "Get", "c1", func(context.Context) (int, error) { return 1, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
