package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// settle is the time after which a run that has just ended is read again, to find commands that
// came since. The watch also announces the driver's last save, and one read serves both.
// settleAsked is the longer delay if the run had ended before and only received commands.
const (
	settle      = 10 * time.Millisecond
	settleAsked = time.Second
	// headStart is the advantage of an engine with fewer runs: an engine with more runs waits for
	// headStart before it takes a returned run. All engines read a changed run after Config.Poll.
	headStart = 500 * time.Millisecond
)

// reconcileRun takes a run if it needs an engine, and steps it if this engine has it.
func (r *Runner) reconcileRun(ctx context.Context, name string) (after time.Duration, err error) {
	d := r.driver(name)
	if d == nil {
		if d, after, err = r.take(ctx, name); d == nil {
			return after, err
		}
	}
	if d.lease.yields.Load() {
		after = r.release(d, settle)
		d.giveBack(ctx)
		return after, nil // an engine with fewer runs takes it first: see yieldsToOthers
	}
	after, err = d.reconcile(ctx)
	switch {
	case ctx.Err() != nil: // Run releases the lease
		return 0, ctx.Err()
	case err == nil:
		return after, nil
	case isRetried(err) && d.ready:
		return 0, fmt.Errorf("a step was not saved: %w", err)
	}
	switch {
	case errors.Is(err, errDone) && d.wasEnded:
		return r.release(d, settleAsked), nil
	case errors.Is(err, errDone):
		after = r.release(d, settle)
		if r.isIdle(name) {
			return 0, nil
		}
		return after, nil
	case errors.Is(err, errRetake):
		return r.release(d, 1), nil
	}
	r.release(d, 0)
	r.lapse(name)
	d.letGo(ctx)
	return 0, fmt.Errorf("it was let go: %w", err)
}

// isRetried reports whether the driver keeps its run after an error and steps it again. It does not
// if the run has ended or is lost, or if the error is permanent.
func isRetried(err error) bool {
	return !errors.Is(err, errDone) && !errors.Is(err, backend.ErrFenced) && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, backend.ErrPermanent)
}

// runFailed releases a run after a panic of its driver, because the driver's memory may be wrong,
// and logs the error.
func (r *Runner) runFailed(ctx context.Context, name string, err error) {
	if p := (*reconcile.PanicError)(nil); errors.As(err, &p) {
		if d := r.driver(name); d != nil {
			r.release(d, 0)
			r.lapse(name)
			d.letGo(ctx)
		}
	}
	level := slog.LevelWarn
	switch {
	case errors.Is(err, backend.ErrNotFound): // the run was deleted, and the next try finds that out
		level = slog.LevelDebug
	case errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrFenced): // another client ended, deleted or took it
		level = slog.LevelInfo
	}
	r.e.Log.Log(ctx, level, "a run is tried again", "run", name, "error", err)
}

// lapse stops the session from extending the lease of a run that this engine has let go, so that
// another engine can take the run.
func (r *Runner) lapse(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lapsed[name] = true
}

func (r *Runner) driver(name string) *driver {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drivers[name]
}

// release ends the driver of a run and returns while. The run is not taken again until that time
// has passed.
func (r *Runner) release(d *driver, while time.Duration) time.Duration {
	d.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.drivers, d.name)
	o := r.observeLocked(d.name, d.recorder.rev)
	o.settled = time.Now().Add(while)
	// The watch reports commands that come from now on. If commands came before, an undeleted one
	// may be left, so the run is not idle.
	rec := d.recorder.rec
	o.idle = rec.Run.IsEnded() && rec.Lease.Holder == "" && d.mail.isEmpty() && !d.input.commanded && d.recorder.own.last()
	r.observed[d.name] = o
	return while
}

// isIdle reports whether the run needs no engine, as far as this engine knows.
func (r *Runner) isIdle(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.observed[name].idle
}

// forget drops everything that this engine knows of a run.
func (r *Runner) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.observed, name)
	delete(r.lapsed, name)
}

// take takes the lease of a run that needs an engine, if the lease is free, and returns its driver.
// If d is nil, the caller should try again after the returned duration.
func (r *Runner) take(ctx context.Context, name string) (d *driver, after time.Duration, err error) {
	r.mu.Lock()
	known := r.observed[name]
	r.mu.Unlock()
	if wait := time.Until(known.settled); known.idle || wait > 0 {
		return nil, max(0, wait), nil
	}
	// If this process is admitting the run, wait for that first, because both write the placement's
	// record.
	if !r.e.State.Admitting.Wait(ctx, name) {
		return nil, 0, nil
	}
	leave, err := r.taking.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	rec, rev, err := r.e.State.Run(ctx, name)
	switch {
	case state.IsNotFound(err):
		r.forget(name)
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	case !r.e.needsDriver(ctx, rec):
		r.mu.Lock()
		defer r.mu.Unlock()
		o := r.observeLocked(name, rev)
		o.idle = o.news == known.news // if there was news, the run is read again
		delete(r.lapsed, name)
		r.observed[name] = o
		return nil, 0, nil
	}
	until, err := r.leasedUntil(ctx, rec, rev)
	if err != nil {
		return nil, 0, err
	}
	if wait := time.Until(until); wait > 0 {
		return nil, wait, nil
	}
	if wait := r.yieldsToOthers(rec, rev); wait > 0 {
		return nil, wait, nil
	}
	plan, err := r.e.State.Plans.Read(ctx, rec.Run.Plan)
	if state.IsNotFound(err) {
		return nil, 0, r.e.State.Abandon(ctx, rec, fmt.Errorf("its plan: %w", err))
	}
	if err != nil {
		return nil, 0, err
	}
	// From here on, a caller that waits for the end of the run need not read its record.
	over := r.e.State.Driving.Begin(rec.Run.UID)
	began := time.Now()
	rev, p, err := r.e.State.Acquire(ctx, rec, rev)
	if err == nil {
		d = newDriver(r.e, taken{
			rec: rec, rev: rev, plan: plan, placement: p, began: began, over: over, wake: func() { r.runs.Add(name) },
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.observed, name)
		r.drivers[name] = d
		delete(r.lapsed, name)
		r.balance.Wake()
		if r.fleet != nil {
			d.inventory.told.put(r.fleet)
		}
		return d, 0, nil
	}
	over()
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, 0, r.e.Admission.Abandoned(ctx, rec) // with its placement
	}
	if errors.Is(err, backend.ErrConflict) {
		return nil, time.Millisecond, nil
	}
	return nil, 0, err
}

// yieldsToOthers returns how long to leave a returned run to engines that drive fewer. The delay is
// short, because those engines may have stopped.
func (r *Runner) yieldsToOthers(rec *record.Run, rev backend.Revision) time.Duration {
	if rec.Lease.Holder != "" || rec.Lease.Epoch == 0 { // any engine may take a new run at once
		return 0
	}
	own, _ := r.count()
	if !r.balance.HasMore(own) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.e.Poll + headStart - time.Since(r.observeLocked(rec.Run.Name, rev).since)
}

// leasedUntil returns the time when the lease of a run is free: both the lease and the session of
// its holder have ended by then.
func (r *Runner) leasedUntil(ctx context.Context, rec *record.Run, rev backend.Revision) (time.Time, error) {
	l := rec.Lease
	r.mu.Lock()
	o := r.observeLocked(rec.Run.Name, rev)
	if l.Holder != r.e.Name {
		delete(r.lapsed, rec.Run.Name)
	}
	r.mu.Unlock()
	if l.Holder == "" || l.Until == 0 || l.Holder == r.e.Name {
		return time.Time{}, nil
	}
	l.Until = stages.At(r.e.State.Here(l.Until.Time()))
	if until := o.until(l, r.e.Lease, r.e.Skew); time.Until(until) > 0 {
		return until, nil
	}
	return r.balance.LeasedUntil(ctx, l.Holder, record.RunKey(rec.Run.Name))
}

// needsDriver reports whether a run has work left: it has not ended, its end is not yet recorded
// with its placement, or a command for it is stored.
func (e *engine) needsDriver(ctx context.Context, rec *record.Run) bool {
	if !rec.Run.IsEnded() || rec.Lease.Holder != "" {
		return true
	}
	_, taken, err := e.Commands.List(ctx, rec.Run.UID)
	return err != nil || len(e.dropProcessed(ctx, &rec.Run, taken)) > 0
}

// dropProcessed deletes the commands that a run has already processed, and returns the others. A
// failed deletion is harmless.
func (e *engine) dropProcessed(ctx context.Context, r *step.Run, taken []commands.Stored) []commands.Stored {
	var old []backend.Write
	rest := slices.DeleteFunc(taken, func(t commands.Stored) bool {
		if hasProcessed(r, t.ID) {
			old = append(old, record.Delete(t.Key, t.Revision))
		}
		return hasProcessed(r, t.ID)
	})
	record.Discard(ctx, e.Store, old)
	return rest
}
