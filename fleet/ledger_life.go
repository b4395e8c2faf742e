package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
)

// A ledger fences as long as it is there. The deletion of a placement takes it
// away in the end, and so a leader that was paused meanwhile finds none, as on a
// cluster that is new to the placement. What keeps it from placing everything
// again is the order: the runs of the placement have ended in the store before a
// ledger is deleted, and whoever writes an intent asks the store afterwards
// whether its run goes on, before it does anything else, unless the ledger proved
// a revision, and so was there before. Whoever made a ledger after the deletion is
// refused, and takes it back.
//
// What is left is one write for each cluster that was on its way to it, and that
// demands that something does not exist. It may be an object, where the member knows
// no fences in the step of the write, see mark: after a deletion nobody looks for it,
// and it carries the marks of the placement. Or it is a ledger, of which whoever made it does not
// learn: an intent without anything, which the next placement of that name takes
// over, by an epoch that is newer.

// writeLedger writes the ledger before anything is done, and makes sure that the
// run goes on where it proved no revision.
func (w *work) writeLedger(ctx context.Context, next *ledger) error {
	made, sure := !w.ledger.exists(), w.ledger.Phase == ledgerApplied || w.a.keeps
	if err := w.ledger.write(ctx, w.m, next); err != nil || sure {
		return err
	}
	err := w.u.held(ctx, w.a)
	if err != nil && made {
		// Nothing was done under it. One that stays is that of an older leader.
		_ = w.deleteLedger(ctx)
	}
	if err != nil {
		return fmt.Errorf("cluster %s: %w", w.m.name, err)
	}
	return nil
}

// forgetLedger deletes the ledger of a placement that is being deleted, once
// nothing is left of it.
func (w *work) forgetLedger(ctx context.Context) error {
	if !w.a.Final || !w.ledger.exists() || w.ledger.Phase != ledgerRemoved {
		return nil
	}
	for _, t := range w.targets {
		if w.stale(t) != "" {
			return nil
		}
	}
	err := w.deleteLedger(ctx)
	switch {
	case err == nil || errors.Is(err, backend.ErrNotFound):
		w.ledger.uid, w.ledger.version = "", ""
		return nil
	case errors.Is(err, backend.ErrConflict):
		return errLedgerMoved
	}
	return err
}

func (w *work) deleteLedger(ctx context.Context) error {
	return w.m.delete(ctx, ledgerID(w.a.Placement), backend.DeleteOptions{
		Manager:      manager(w.a.Placement),
		Precondition: backend.Precondition{UID: w.ledger.uid, ResourceVersion: w.ledger.version},
	})
}

// held returns an error where a run does not go on, or is somebody else's, by the
// store.
func (e *Engine) held(ctx context.Context, a Assignment) error {
	ctx = context.WithoutCancel(ctx) // others may wait for the answer
	return e.holders.ask(a.RunUID+" "+strconv.FormatInt(a.Epoch, 10), func() error {
		rr, _, err := e.runAt(ctx, a.Run)
		switch {
		case isNotFound(err):
			return fmt.Errorf("run %s was deleted: %w", a.Run, backend.ErrFenced)
		case err != nil:
			return err
		case rr.Run.UID != a.RunUID || rr.Lease.Epoch != a.Epoch || rr.Run.IsEnded():
			return fmt.Errorf("run %s has ended, or another engine has it: %w", a.Run, backend.ErrFenced)
		}
		return nil
	})
}

// asks lets those who ask the same at the same time share an answer, if it was
// looked for after they asked.
type asks struct {
	mu  sync.Mutex
	all map[string]*asked
}

// asked is a question that somebody asks.
type asked struct {
	// here counts who came, also those who have left; now are those who are here.
	here atomic.Int64
	now  int
	// turn is taken to look for an answer: those who wait for it can be seen to
	// wait, as those who wait for a mutex cannot.
	turn chan struct{}
	// as is how many had come when the last answer was looked for.
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
