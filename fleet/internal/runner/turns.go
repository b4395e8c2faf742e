package runner

import (
	"context"
	"sync"
)

// turns lets one caller go on at a time, and after it any of those that wait. Engines that share a store share its
// runs by that: each takes one run after the other, in an order of its own.
type turns struct {
	mu      sync.Mutex
	taken   bool
	waiting map[chan struct{}]bool
}

// enter waits for the caller's turn, which ends with leave. The error is ctx's.
func (t *turns) enter(ctx context.Context) (leave func(), err error) {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return t.next, nil
	}
	turn := make(chan struct{})
	if t.waiting == nil {
		t.waiting = map[chan struct{}]bool{}
	}
	t.waiting[turn] = true
	t.mu.Unlock()
	select {
	case <-turn:
		return t.next, nil
	case <-ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.waiting[turn] {
			delete(t.waiting, turn)
			return nil, ctx.Err()
		}
		return t.next, nil // its turn had come
	}
}

// next gives the turn to one of those that wait.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for turn := range t.waiting { // in no order
		delete(t.waiting, turn)
		close(turn)
		return
	}
	t.taken = false
}
