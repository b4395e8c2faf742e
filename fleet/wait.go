package fleet

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
)

// Wait returns the status of a run once it has ended and has given its
// placement free. It follows the store, so another engine may drive the run,
// and it rides out a store that fails for a while. A failed run has ended,
// also one that could be started again.
//
// The error is ctx's, or matches backend.ErrNotFound when there is no such run
// or it is deleted meanwhile, even if another one is given its name.
func (e *Engine) Wait(ctx context.Context, run string) (Status, error) {
	w := waiter{e: e, run: run}
	pause := backoff.Poll(e.cfg.Poll)
	for {
		ended, err := w.watch(ctx)
		switch {
		case ended != nil:
			s, err := e.state.StatusOf(ctx, ended)
			return Status(s), err
		case ctx.Err() != nil:
			return Status{}, ctx.Err()
		case state.IsLasting(err):
			return Status{}, err
		}
		if !pause.Wait(ctx) {
			return Status{}, ctx.Err()
		}
	}
}

// Moves reports whether a run goes on without a person: a command to it has not been taken in, or it waits for more than
// answers, starts, and runs for which the same holds. Once it has ended, what rolls it back counts. Where the result is
// false, a status that is read afterwards is final until a person does something. Whether an engine drives the run makes
// no difference: a host that drives it itself may end when nothing moves.
func (e *Engine) Moves(ctx context.Context, run string) (bool, error) {
	s, err := e.Status(ctx, run)
	if err != nil {
		return false, err
	}
	for _, err := range e.store.List(ctx, record.CommandKey(s.Run.UID, "")) {
		return true, err
	}
	if s, err = e.Status(ctx, run); err != nil { // with what those did that were taken in before they were listed
		return false, err
	}
	switch {
	case s.Run.IsEnded():
		back, err := e.RollbackOf(ctx, run)
		if err != nil || back.Pending || back.By == "" {
			return back.Pending, err
		}
		return e.Moves(ctx, back.By)
	case s.Run.State == stages.NotStarted:
		return !s.Run.Hold, nil
	}
	waiting := stages.Waiting(s.Plan, &s.Run)
	for _, a := range waiting {
		switch a.Kind {
		case stages.AwaitStart, stages.AwaitDecision:
		case stages.AwaitRun:
			before, err := e.Status(ctx, a.Name)
			if state.IsNotFound(err) || err == nil && before.Run.IsEnded() {
				return true, nil
			}
			if moves, err := e.Moves(ctx, a.Name); moves || err != nil {
				return moves, err
			}
		default:
			return true, nil
		}
	}
	return len(waiting) == 0, nil
}

// waiter waits for the end of a run.
type waiter struct {
	e        *Engine
	run, uid string
}

// watch returns the record of the run once it has ended, or an error, or neither
// when it can no longer be watched.
func (w *waiter) watch(ctx context.Context) (ended *record.Run, err error) {
	began := time.Now()
	ended, read, err := w.ended(ctx)
	if ended != nil || err != nil {
		return ended, err
	}
	for c, err := range backend.Watch(ctx, w.e.store, record.RunKey(w.run), w.e.cfg.Poll) {
		if err != nil {
			return nil, err
		}
		if c.Key != record.RunKey(w.run) || c.Revision == read {
			continue // a watch begins with the record as it is
		}
		if !w.e.state.Driving.Wait(ctx, w.uid) {
			return nil, ctx.Err()
		}
		if ended, read, err = w.ended(ctx); ended != nil || err != nil {
			return ended, err
		}
		pause := min(time.Since(began)/4, readAgain)
		if !backoff.Sleep(ctx, pause) { // what changes meanwhile is yielded once
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// readAgain is the longest pause between two reads of a run whose end is waited for.
const readAgain = 100 * time.Millisecond

// ended reads the run, and returns its record if it has ended. The revision is
// that of the record in any case.
func (w *waiter) ended(ctx context.Context) (*record.Run, backend.Revision, error) {
	rr, rev, err := w.e.state.Run(ctx, w.run)
	if err != nil {
		return nil, "", err
	}
	if w.uid == "" {
		w.uid = rr.Run.UID
	}
	if rr.Run.UID != w.uid {
		return nil, "", state.Replaced(w.run)
	}
	if !rr.Run.IsEnded() || rr.Lease.Holder != "" {
		return nil, rev, nil
	}
	return rr, rev, nil
}
