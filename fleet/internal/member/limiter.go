package member

import (
	"context"
	"errors"
	"sync"
)

// slowShare is the divisor that gives the number of places for clusters that timed out.
const slowShare = 8

// Limiter bounds how many clusters are updated at a time. A cluster whose last call timed out waits
// for one of a few separate places, so that clusters that hang delay each other and no others.
type Limiter struct {
	fast, slow chan struct{}
	mu         sync.Mutex
	late       map[string]bool
}

// NewLimiter returns a limiter with n places, and max(1, n/slowShare) more for clusters that timed
// out.
func NewLimiter(n int) *Limiter {
	return &Limiter{
		fast: make(chan struct{}, n),
		slow: make(chan struct{}, max(1, n/slowShare)),
		late: map[string]bool{},
	}
}

// Enter waits for a place and returns a function that releases it, called with the outcome.
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
