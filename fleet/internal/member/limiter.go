package member

import (
	"context"
	"errors"
	"sync"
)

// slowShare is the part of the updates that clusters which timed out may take.
const slowShare = 8

// Limiter bounds how many clusters are worked on at a time. A cluster whose last
// call timed out waits for one of a few places of its own, so that clusters that
// hang hold up each other and no others.
type Limiter struct {
	fast, slow chan struct{}
	mu         sync.Mutex
	late       map[string]bool
}

// NewLimiter returns a limiter of n clusters, besides some of those that timed out.
func NewLimiter(n int) *Limiter {
	return &Limiter{
		fast: make(chan struct{}, n),
		slow: make(chan struct{}, max(1, n/slowShare)),
		late: map[string]bool{},
	}
}

// Enter waits for a place and returns how to leave it with the outcome.
func (l *Limiter) Enter(ctx context.Context, cluster string) (func(error), error) {
	lane := l.fast
	if l.isLate(cluster) {
		lane = l.slow
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return func(err error) {
		<-lane
		l.note(cluster, errors.Is(err, context.DeadlineExceeded))
	}, nil
}

func (l *Limiter) isLate(cluster string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late[cluster]
}

func (l *Limiter) note(cluster string, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if late {
		l.late[cluster] = true
	} else {
		delete(l.late, cluster)
	}
}
