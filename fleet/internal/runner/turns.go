package runner

import (
	"context"
	"sync"
)

// turns admits one caller at a time, and then any of the waiting callers, in random order. This
// lets engines that share a store divide its runs: each engine takes one run after the other, in
// its own order.
type turns struct {
	mu      sync.Mutex
	taken   bool
	waiting map[chan struct{}]bool
}

// enter waits for the caller's turn. The caller must call leave to end it. The error is ctx's.
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
		return t.next, nil // the turn came at the same moment
	}
}

// next passes the turn to one of the waiting callers.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for turn := range t.waiting { // the order is random
		delete(t.waiting, turn)
		close(turn)
		return
	}
	t.taken = false
}
