package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Wait returns the status of a run once it has ended and has released its
// placement. If the run is rolled back, Wait returns once the rollback has ended
// too, or was refused: [RunHandle.RollbackStatus] says how. It follows the store, so
// another engine may drive the run, and it retries while the store fails. A failed
// run has ended, even if it could be started again.
//
// The error is ctx's, or matches backend.ErrNotFound if there is no such run
// or if it is deleted before it ends, even if another one is given its name.
func (h RunHandle) Wait(ctx context.Context) (Status, error) {
	w := waiter{e: h.e, run: h.name}
	ended, err := w.wait(ctx)
	if err == nil {
		err = w.waitRolledBack(ctx, ended)
	}
	if err != nil {
		return Status{}, err
	}
	s, err := h.e.state.StatusOf(ctx, ended)
	return Status(s), err
}

// wait returns the record of the run once it has ended and has released its placement.
func (w *waiter) wait(ctx context.Context) (*record.Run, error) {
	pause := backoff.Poll(w.e.cfg.Poll)
	for {
		ended, err := w.watch(ctx)
		switch {
		case ended != nil:
			return ended, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case state.IsLasting(err):
			return nil, err
		}
		if !pause.Wait(ctx) {
			return nil, ctx.Err()
		}
	}
}

// waitRolledBack returns once the rollback of an ended run is over.
func (w *waiter) waitRolledBack(ctx context.Context, of *record.Run) error {
	pause := backoff.Poll(w.e.cfg.Poll)
	for {
		over, err := w.stepRolledBack(ctx, of)
		switch {
		case over:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case state.IsLasting(err):
			return err
		case err == nil:
			pause.Reset()
			continue
		}
		if !pause.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// stepRolledBack reports whether the rollback of a run that has ended is over. If it is not, it
// returns after the placement has changed, or after the run that rolls back has ended.
func (w *waiter) stepRolledBack(ctx context.Context, of *record.Run) (over bool, err error) {
	rec, rev, err := w.e.state.Placement(ctx, of.Run.Placement)
	if state.IsNotFound(err) { // and nothing can be rolled back any more
		return true, nil
	}
	if err != nil {
		return false, err
	}
	back := rollbackIn(rec, of)
	switch {
	case back.Pending:
		return false, w.changed(ctx, record.PlacementKey(of.Run.Placement), rev)
	case back.By == "":
		return true, nil
	}
	by, err := rollbackRun(ctx, w.e.state, of.Run.UID, back.By)
	if by == nil || by.Run.IsEnded() && by.Lease.Holder == "" {
		return err == nil, err
	}
	other := waiter{e: w.e, run: back.By}
	if _, err = other.wait(ctx); state.IsNotFound(err) {
		err = nil
	}
	return false, err
}

// changed returns once a record has a revision other than read.
func (w *waiter) changed(ctx context.Context, key string, read backend.Revision) error {
	for c, err := range backend.Watch(ctx, w.e.store, key, w.e.cfg.Poll) {
		if err != nil {
			return err
		}
		if c.Key == key && c.Revision != read {
			return nil
		}
	}
	return errors.New("the watch ended")
}

// Moves reports whether a run can progress without a person. It can if a command to it is not
// processed yet, or if it waits for anything other than an answer without a timeout, a start
// command, or a run that cannot progress itself. Once the run has ended, Moves reports on its
// rollback. If the result is false, a status that is read afterwards is final until a person acts.
// The result does not depend on whether an engine drives the run, so a host that drives it may exit
// when nothing moves.
func (h RunHandle) Moves(ctx context.Context) (bool, error) {
	s, err := h.Status(ctx)
	if err != nil {
		return false, err
	}
	for _, err := range h.e.store.List(ctx, record.CommandKey(s.Run.UID, "")) {
		return true, err
	}
	if s, err = h.Status(ctx); err != nil { // with the effects of commands that were processed before the list
		return false, err
	}
	switch {
	case s.Run.IsEnded():
		back, err := h.RollbackStatus(ctx)
		if err != nil || back.Pending || back.State == "" {
			return back.Pending, err
		}
		return h.e.Run(back.By).Moves(ctx)
	case s.Run.State == stages.NotStarted:
		return !s.Run.Hold, nil
	}
	waiting := step.Waiting(s.Plan, &s.Run)
	for _, a := range waiting {
		switch a.Kind {
		case stages.AwaitStart, stages.AwaitDecision:
		case stages.AwaitRun:
			before, err := h.e.Run(a.Name).Status(ctx)
			if state.IsNotFound(err) || err == nil && before.Run.IsEnded() {
				return true, nil
			}
			if moves, err := h.e.Run(a.Name).Moves(ctx); moves || err != nil {
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

// watch returns the record of the run once it has ended, or an error, or neither if it can no
// longer be watched.
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
			continue // a watch begins with the current record
		}
		if !w.e.state.Driving.Wait(ctx, w.uid) {
			return nil, ctx.Err()
		}
		if ended, read, err = w.ended(ctx); ended != nil || err != nil {
			return ended, err
		}
		pause := min(time.Since(began)/4, readAgain)
		if !backoff.Sleep(ctx, pause) { // changes during the pause are yielded once
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// readAgain is the longest pause between two reads of a run while waiting for its end.
const readAgain = 100 * time.Millisecond

// ended reads the run, and returns its record if it has ended. The revision is the record's in any
// case.
func (w *waiter) ended(ctx context.Context) (*record.Run, backend.Revision, error) {
	rr, rev, err := w.e.state.Run(ctx, w.run)
	if err != nil {
		return nil, "", err
	}
	if w.uid == "" {
		w.uid = rr.Run.UID
	}
	if rr.Run.UID != w.uid {
		return nil, "", errdef.Replaced(w.run)
	}
	if !rr.Run.IsEnded() || rr.Lease.Holder != "" {
		return nil, rev, nil
	}
	return rr, rev, nil
}
