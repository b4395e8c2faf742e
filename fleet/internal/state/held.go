package state

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/member"
)

// Held returns an error where the store says that a run has ended or that another engine
// has it.
func (st *State) Held(ctx context.Context, a member.Assignment) error {
	ctx = context.WithoutCancel(ctx) // others may wait for the answer
	return st.holders.ask(a.RunUID+" "+strconv.FormatInt(a.Epoch, 10), func() error {
		rr, _, err := st.Run(ctx, a.Run)
		switch {
		case IsNotFound(err):
			return fmt.Errorf("run %s was deleted: %w", a.Run, backend.ErrFenced)
		case err != nil:
			return err
		case rr.Run.UID != a.RunUID || rr.Lease.Epoch != a.Epoch || rr.Run.IsEnded():
			return fmt.Errorf("run %s has ended, or another engine has it: %w", a.Run, backend.ErrFenced)
		}
		return nil
	})
}

// asks shares an answer between concurrent questions of the same key, if the search for
// it began after they were asked.
type asks struct {
	mu  sync.Mutex
	all map[string]*asked
}

// asked is a question that waits for its answer.
type asked struct {
	// here counts all callers so far, now those that have not left.
	here atomic.Int64
	now  int
	// turn is taken to search for an answer. It is a channel because testing/synctest
	// does not take a goroutine that waits for a mutex for blocked.
	turn chan struct{}
	// as is how many callers had come when the last search began.
	as  int64
	err error
}

// ask returns the answer to a question.
func (a *asks) ask(key string, answer func() error) error {
	q := a.enter(key)
	defer a.leave(key, q)
	n := q.here.Add(1)
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	if q.as < n {
		as := q.here.Load()
		q.err = answer()
		q.as = as
	}
	return q.err
}

func (a *asks) enter(key string) *asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*asked{}
	}
	if a.all[key] == nil {
		a.all[key] = &asked{turn: make(chan struct{}, 1)}
	}
	a.all[key].now++
	return a.all[key]
}

func (a *asks) leave(key string, q *asked) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q.now--; q.now == 0 {
		delete(a.all, key)
	}
}
