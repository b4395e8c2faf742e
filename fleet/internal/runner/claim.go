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
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// settle is how long a run that has ended is left before it is read, for commands that
// came meanwhile: the watch announces the last save of its driver, too, and one read
// serves both. A run that had ended before, and was only asked something, is left longer.
const (
	settle      = 10 * time.Millisecond
	settleAsked = time.Second
	// headStart is how much earlier an engine takes a run than one that drives more; both read one that changed after Config.Poll.
	headStart = 500 * time.Millisecond
)

// reconcileRun takes a run where it needs an engine, and steps it where this engine has it.
func (r *Runner) reconcileRun(ctx context.Context, name string) (after time.Duration, err error) {
	d := r.driver(name)
	if d == nil {
		if d, after, err = r.take(ctx, name); d == nil {
			return after, err
		}
	}
	if d.leaves.Load() {
		after = r.release(d, settle)
		d.giveBack(ctx)
		return after, nil // an engine that drives fewer takes it first: see leavesToOthers
	}
	after, err = d.reconcile(ctx)
	switch {
	case ctx.Err() != nil: // Run gives the lease back
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

// isRetried reports whether a driver keeps its run after an error, and steps it again: neither is the run lost, nor
// does it not help.
func isRetried(err error) bool {
	return !errors.Is(err, errDone) && !errors.Is(err, backend.ErrFenced) && !errors.Is(err, backend.ErrNotFound) && !errors.Is(err, backend.ErrPermanent)
}

// runFailed lets a run go whose driver panicked: what it knows may be wrong.
func (r *Runner) runFailed(ctx context.Context, name string, err error) {
	if p := (*reconcile.PanicError)(nil); errors.As(err, &p) {
		if d := r.driver(name); d != nil {
			r.release(d, 0)
			r.lapse(name)
			d.letGo(ctx)
		}
	}
	level := slog.LevelWarn
	if errors.Is(err, backend.ErrNotFound) { // the run was deleted meanwhile, which the next try finds out
		level = slog.LevelDebug
	}
	r.e.log.Log(ctx, level, "a run is tried again", "run", name, "error", err)
}

// lapse has the session no longer extend the lease of a run that this engine has let go, so that another one may take it.
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

// release ends the driver of a run, which is not taken again for a while, and returns how long that is.
func (r *Runner) release(d *driver, while time.Duration) time.Duration {
	d.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.drivers, d.name)
	o := r.observeLocked(d.name, d.rev)
	o.settled = time.Now().Add(while)
	// A command that comes from now on has a watch tell of it. Where some came before, one that could not be deleted
	// may be left.
	o.idle = d.rec.Run.IsEnded() && d.rec.Lease.Holder == "" && !d.asked.Load() && !d.commanded && d.wroteLast()
	r.observed[d.name] = o
	return while
}

// wroteLast reports whether the last change of the run of which a watch told is the driver's own: otherwise another
// engine may have it.
func (d *driver) wroteLast() bool {
	last, told := d.told.Load().(backend.Revision)
	return !told || slices.Contains(d.wrote[:], last)
}

// isIdle reports whether a run needs no engine, as far as is known.
func (r *Runner) isIdle(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.observed[name].idle
}

// forget drops what is known of a run.
func (r *Runner) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.observed, name)
	delete(r.lapsed, name)
}

// take takes the lease of a run that needs an engine, if it is free, and returns its driver. Without a driver, after
// is when to try again.
func (r *Runner) take(ctx context.Context, name string) (d *driver, after time.Duration, err error) {
	r.mu.Lock()
	known := r.observed[name]
	r.mu.Unlock()
	if wait := time.Until(known.settled); known.idle || wait > 0 {
		return nil, max(0, wait), nil
	}
	// A run that is being admitted in this process is taken then: both write the placement's record.
	if !r.e.state.Admitting.Wait(ctx, name) {
		return nil, 0, nil
	}
	leave, err := r.taking.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	rec, rev, err := r.e.state.Run(ctx, name)
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
		o.idle = o.news == known.news // otherwise it is read once more
		delete(r.lapsed, name)
		r.observed[name] = o
		return nil, 0, nil
	}
	until, err := r.heldUntil(ctx, rec, rev)
	if err != nil {
		return nil, 0, err
	}
	if wait := time.Until(until); wait > 0 {
		return nil, wait, nil
	}
	if wait := r.leavesToOthers(rec, rev); wait > 0 {
		return nil, wait, nil
	}
	plan, err := r.e.state.ReadPlan(ctx, rec.Run.Plan)
	if state.IsNotFound(err) {
		return nil, 0, r.e.state.Abandon(ctx, rec, fmt.Errorf("its plan: %w", err))
	}
	if err != nil {
		return nil, 0, err
	}
	// A caller that waits for the end of the run need not read what is written from here on.
	over := r.e.state.Driving.Begin(rec.Run.UID)
	began := time.Now()
	rev, p, err := r.e.state.Acquire(ctx, rec, rev)
	if err == nil {
		d = newDriver(r.e, rec, rev, plan)
		d.coOwnership, d.exclusive, d.deletePolicy = p.Placement.AllowCoOwnership, p.Placement.Exclusive, p.Placement.DeletePolicy
		d.leased = began
		d.secretKey, d.admitted, d.first, d.over = p.Key, p.HasRun(d.uid), p, over
		d.wake = func() { r.runs.Add(name) }
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.observed, name)
		r.drivers[name] = d
		delete(r.lapsed, name)
		r.balance.Wake()
		if r.fleet != nil {
			d.setFleet(r.fleet)
		}
		return d, 0, nil
	}
	over()
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, 0, r.e.admission.Abandoned(ctx, rec) // with its placement
	}
	if errors.Is(err, backend.ErrConflict) {
		return nil, time.Millisecond, nil
	}
	return nil, 0, err
}

// leavesToOthers returns how long a run that was given back is left to engines that drive fewer: not for long, since these may have
// ended.
func (r *Runner) leavesToOthers(rec *record.Run, rev backend.Revision) time.Duration {
	if rec.Lease.Holder != "" || rec.Lease.Epoch == 0 { // a new one is for whichever engine comes first
		return 0
	}
	own, _ := r.count()
	if !r.balance.HasMore(own) {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.e.cfg.Poll + headStart - time.Since(r.observeLocked(rec.Run.Name, rev).since)
}

// heldUntil is when the lease of a run may be taken: it has ended, and so has the session of its holder.
func (r *Runner) heldUntil(ctx context.Context, rec *record.Run, rev backend.Revision) (time.Time, error) {
	l := rec.Lease
	r.mu.Lock()
	o := r.observeLocked(rec.Run.Name, rev)
	if l.Holder != r.e.cfg.Name {
		delete(r.lapsed, rec.Run.Name)
	}
	r.mu.Unlock()
	if l.Holder == "" || l.Until == 0 || l.Holder == r.e.cfg.Name {
		return time.Time{}, nil
	}
	l.Until = stages.At(r.e.state.Here(l.Until.Time()))
	if until := o.until(l, r.e.cfg.Lease, r.e.cfg.Skew); time.Until(until) > 0 {
		return until, nil
	}
	return r.balance.HeldUntil(ctx, l.Holder, record.RunKey(rec.Run.Name))
}

// needsDriver reports whether a run has anything to do: it has not ended, its end
// has not been recorded with its placement, or a command for it is stored.
func (e *engine) needsDriver(ctx context.Context, rec *record.Run) bool {
	if !rec.Run.IsEnded() || rec.Lease.Holder != "" {
		return true
	}
	_, taken, err := e.commands.List(ctx, rec.Run.UID)
	return err != nil || len(e.heard(ctx, &rec.Run, taken)) > 0
}

// heard deletes the commands that a run has taken in already, and returns the
// others. One that cannot be deleted does no harm.
func (e *engine) heard(ctx context.Context, r *step.Run, taken []commands.Stored) []commands.Stored {
	var old []backend.Write
	rest := slices.DeleteFunc(taken, func(t commands.Stored) bool {
		if hasHeard(r, t.ID) {
			old = append(old, record.Delete(t.Key, t.Revision))
		}
		return hasHeard(r, t.ID)
	})
	record.Discard(ctx, e.store, old)
	return rest
}

// hasHeard reports whether a run has taken in the command of an ID. A command that
// cannot be read has none, and there is nothing to take in.
func hasHeard(r *step.Run, id string) bool {
	return id == "" || slices.Contains(r.Form(runstate.Key{}).Seen, id)
}

// giveBack frees the lease of a run that its engine stops driving. A run that
// has ended keeps its holder, which says that its end was not seen to.
func (d *driver) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.e.cfg.CallTimeout)
	defer cancel()
	if d.resolve(ctx) != nil || d.rec.Lease.Holder == "" {
		return
	}
	next := *d.rec
	next.Lease.Until = 0
	if !next.Run.IsEnded() {
		next.Lease.Holder = ""
	}
	next.Seq++
	_, _ = d.e.store.Put(ctx, record.RunKey(d.name), next.Encode(), d.rev)
}
