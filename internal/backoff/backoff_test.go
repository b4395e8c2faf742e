package backoff

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitsAreSpread: of many that wait for the same time, hardly two come back at the same moment.
func TestWaitsAreSpread(t *testing.T) {
	times := map[time.Duration]bool{}
	for range 100 {
		times[New(time.Second, time.Minute).Spread().Next()] = true
	}
	if len(times) < 90 {
		t.Errorf("100 first waits have %d lengths", len(times))
	}
	for d := range times {
		if d > time.Second || d < time.Second*4/5 {
			t.Errorf("a first wait of 1s is %v", d)
		}
	}
}

// TestWaitsDouble: waits grow up to the longest, begin again after a wake-up, and end with their
// context.
func TestWaitsDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Poll(time.Second)
		waited := func(want time.Duration) {
			t.Helper()
			begin := time.Now()
			if !b.Wait(t.Context()) || time.Since(begin) != want {
				t.Errorf("waited %v, want %v", time.Since(begin), want)
			}
		}
		for _, n := range []time.Duration{1, 2, 4, 8, 10, 10} {
			waited(n * time.Second)
		}
		b.Reset()
		waited(time.Second)
		waited(2 * time.Second)
		wake := make(chan struct{}, 1)
		if !b.WaitFor(t.Context(), wake) {
			t.Error("the wait did not pass")
		}
		wake <- struct{}{}
		begin := time.Now()
		if !b.WaitFor(t.Context(), wake) || time.Since(begin) != 0 {
			t.Errorf("woken after %v", time.Since(begin))
		}
		waited(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if b.Wait(ctx) || b.WaitFor(ctx, nil) {
			t.Error("a wait passed although its context ended")
		}
	})
}
