// Package backoff provides waits that double.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is a wait that doubles each time, from a first one up to a longest. It belongs to one
// goroutine.
type Backoff struct {
	first, most, next time.Duration
	spread            bool
}

// New returns a wait of first, which doubles up to most.
func New(first, most time.Duration) *Backoff { return &Backoff{first: first, most: most, next: first} }

// Poll returns the waits of a poll: they grow up to ten times the interval.
func Poll(interval time.Duration) *Backoff { return New(interval, 10*interval) }

// Spread makes each wait up to a fifth shorter, at random, and returns b. It is for retries of a
// server that many clients share, because clients that lost the server together must not retry
// together.
func (b *Backoff) Spread() *Backoff {
	b.spread = true
	return b
}

// Next returns how long to wait now.
func (b *Backoff) Next() time.Duration {
	d := b.next
	b.next = min(2*d, b.most)
	if most := d / 5; b.spread && most > 0 {
		d -= rand.N(most) //nolint:gosec // the jitter of a backoff is not secret
	}
	return d
}

// Reset makes the next wait the first one again.
func (b *Backoff) Reset() { b.next = b.first }

// Wait waits, and reports whether that time passed before ctx ended.
func (b *Backoff) Wait(ctx context.Context) bool { return Sleep(ctx, b.Next()) }

// WaitFor is Wait, but returns as soon as wake receives. The next wait is then the first one again.
// It reports whether ctx is still alive.
func (b *Backoff) WaitFor(ctx context.Context, wake <-chan struct{}) bool {
	goesOn, woken := SleepFor(ctx, b.Next(), wake)
	if woken {
		b.Reset()
	}
	return goesOn
}

// Sleep waits for d, and reports whether that time passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	passed, _ := SleepFor(ctx, d, nil)
	return passed
}

// SleepFor is Sleep, but returns as soon as wake receives. It reports whether ctx is still alive
// and whether wake received.
func SleepFor(ctx context.Context, d time.Duration, wake <-chan struct{}) (goesOn, woken bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-wake:
		return true, true
	case <-t.C:
		return true, false
	}
}

// Wake sends to a channel of capacity 1 that wakes its only receiver. A second signal is dropped.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
