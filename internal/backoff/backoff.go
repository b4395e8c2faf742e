// Package backoff has waits that double.
package backoff

import (
	"context"
	"time"
)

// Backoff is a wait that doubles each time, from a first one up to a longest. It belongs
// to one goroutine.
type Backoff struct{ first, most, next time.Duration }

// New returns a wait of first, which doubles up to most.
func New(first, most time.Duration) *Backoff { return &Backoff{first: first, most: most, next: first} }

// Poll returns the waits of a poll: they grow up to ten times the interval.
func Poll(interval time.Duration) *Backoff { return New(interval, 10*interval) }

// Next returns how long to wait now.
func (b *Backoff) Next() time.Duration {
	d := b.next
	b.next = min(2*d, b.most)
	return d
}

// Reset makes the next wait the first one again.
func (b *Backoff) Reset() { b.next = b.first }

// Wait waits, and reports whether that time passed before ctx ended.
func (b *Backoff) Wait(ctx context.Context) bool {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// WaitFor is Wait, which wake cuts short; the next wait is the first one again then.
func (b *Backoff) WaitFor(ctx context.Context, wake <-chan struct{}) bool {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
		b.Reset()
	case <-t.C:
	}
	return true
}

// Sleep waits for d, and reports whether that time passed before ctx ended.
func Sleep(ctx context.Context, d time.Duration) bool { return New(d, d).Wait(ctx) }

// Wake sends to a channel of capacity 1 that wakes its only receiver. Where it is woken already, that is enough.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
