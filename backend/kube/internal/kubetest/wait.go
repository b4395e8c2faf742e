package kubetest

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// Ticks follows a sequence that yields only the fact of a change.
type Ticks struct {
	Told chan struct{}
	End  chan error
	stop context.CancelFunc
}

// TicksOf follows a sequence until the test ends.
func TicksOf(t *testing.T, of func(context.Context) iter.Seq2[struct{}, error]) *Ticks {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	k := &Ticks{Told: make(chan struct{}, 1000), End: make(chan error, 1), stop: stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, err := range of(ctx) {
			if err != nil {
				k.End <- err
				return
			}
			k.Told <- struct{}{}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return k
}

// Next waits for the next item.
func (k *Ticks) Next(t *testing.T, why string) {
	t.Helper()
	timeout := time.NewTimer(2 * time.Minute)
	defer timeout.Stop()
	select {
	case <-k.Told:
	case err := <-k.End:
		t.Fatalf("%s: the watch ended: %v", why, err)
	case <-timeout.C:
		t.Fatalf("%s: nothing was told", why)
	}
}

// Drain discards the received items and returns their number.
func (k *Ticks) Drain() (n int) {
	for {
		select {
		case <-k.Told:
			n++
		default:
			return n
		}
	}
}

// LastOf returns the last error of a sequence.
func LastOf[T any](seq func(func(T, error) bool)) (last error) {
	seq(func(_ T, err error) bool { last = err; return true })
	return last
}

// Eventually polls ok until it returns true, and fails the test if that takes too long.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not happen", what)
		case <-tick.C:
		}
	}
}

// WantTransient fails the test unless err is an error of no kind.
func WantTransient(t testing.TB, err error) {
	t.Helper()
	for _, kind := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent} {
		if err == nil || errors.Is(err, kind) {
			t.Fatalf("the error is %v, want one of no kind", err)
		}
	}
}
