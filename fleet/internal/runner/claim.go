package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// takeMost is the longest wait before a run that cannot be driven is tried again
// although nothing has changed about it.
const takeMost = 5 * time.Minute

// lookLater has a run looked at again after a wait that grows with its failures.
// A driver that lasted longer than a lease starts the count again.
func (r *Runner) lookLater(name string, since time.Time, err error) time.Time {
	most := r.e.cfg.Lease
	if newer := (*stages.FormatError)(nil); errors.Is(err, backend.ErrPermanent) || errors.As(err, &newer) {
		most = takeMost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(since) > r.e.cfg.Lease {
		delete(r.failed, name)
	}
	wait := min(time.Second<<min(r.failed[name], 10), most)
	r.failed[name]++
	next := time.Now().Add(wait)
	r.lookLocked(name, next)
	return next
}

// rest is how long a run that was let go is left alone, unless something is
// asked of it meanwhile. That its record changes is mostly the doing of the
// driver that let it go, or of another engine that fares no better.
type rest struct {
	uid   string
	until time.Time
}

func (r *Runner) restUntil(d *driver, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rests[d.name] = rest{d.uid, until}
}

// resting tells until when a run is left alone.
func (r *Runner) resting(rec *record.Run) (until time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := r.rests[rec.Run.Name]
	return rest.until, rest.uid == rec.Run.UID && time.Now().Before(rest.until)
}

// forgive forgets how often a run failed.
func (r *Runner) forgive(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, name)
	delete(r.rests, name)
}

// forget drops what is known of a run that needs no driver, or is gone.
func (r *Runner) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(name)
}

func (r *Runner) forgetLocked(name string) {
	delete(r.failed, name)
	delete(r.rests, name)
	delete(r.sights, name)
}

// claim takes runs that are due until ctx ends.
func (r *Runner) claim(ctx context.Context) {
	for {
		names, next := r.ready(time.Now())
		for _, name := range names {
			if err := r.take(ctx, name); err != nil && ctx.Err() == nil {
				r.e.log.Warn("a run was not taken", "run", name, "error", err)
				r.lookLater(name, time.Now(), err)
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// ready returns the runs that are due, and how long it is to the next one.
func (r *Runner) ready(now time.Time) (names []string, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = r.e.cfg.Lease
	for name, at := range r.due {
		if !at.After(now) {
			names = append(names, name)
			delete(r.due, name)
			continue
		}
		next = min(next, at.Sub(now))
	}
	return names, next
}

// take drives a run, if it needs driving and its lease is free. One that is being
// admitted in this process is taken then: both write the placement's record.
func (r *Runner) take(ctx context.Context, name string) error {
	if r.e.state.Admitting.Has(name) {
		r.driving.Go(func() {
			if r.e.state.Admitting.Wait(ctx, name) {
				r.look(name, time.Now())
			}
		})
		return nil
	}
	rec, rev, err := r.e.state.Run(ctx, name)
	if state.IsNotFound(err) {
		r.forget(name)
		return nil
	}
	if err != nil || !r.free(ctx, rec, rev) {
		return err
	}
	return r.start(ctx, rec, rev)
}

// free reports whether a run can be driven and has to be. If not, it says when
// the run is looked at again.
func (r *Runner) free(ctx context.Context, rec *record.Run, rev backend.Revision) bool {
	name := rec.Run.Name
	if r.driven(name) {
		return false
	}
	if until, ok := r.resting(rec); ok {
		r.look(name, until)
		return false
	}
	if !r.e.needsDriver(ctx, rec) {
		r.forget(name)
		return false
	}
	if until := r.heldUntil(rec, rev); time.Now().Before(until) {
		r.look(name, until)
		return false
	}
	return true
}

// heldUntil is when the lease of a run may be taken.
func (r *Runner) heldUntil(rec *record.Run, rev backend.Revision) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.sawLocked(rec.Run.Name, rev)
	if rec.Lease.Holder == r.e.cfg.Name {
		return time.Time{}
	}
	l := rec.Lease
	if l.Until != 0 {
		l.Until = stages.At(r.e.state.Here(l.Until.Time()))
	}
	return seen.until(l, r.e.cfg.Lease, r.e.cfg.Skew)
}

// start takes the lease of a run and drives it.
func (r *Runner) start(ctx context.Context, rec *record.Run, rev backend.Revision) error {
	plan, err := r.e.state.ReadPlan(ctx, rec.Run.Plan)
	if state.IsNotFound(err) {
		return r.e.state.Abandon(ctx, rec, fmt.Errorf("its plan: %w", err))
	}
	if err != nil {
		return err
	}
	// Those who wait for the end of the run need not read what is written from here on.
	over := r.e.state.Driving.Begin(rec.Run.UID)
	rev, p, err := r.e.state.Acquire(ctx, rec, rev)
	if err == nil {
		r.drive(ctx, rec, rev, plan, p, over)
		return nil
	}
	over()
	if gone := (*state.NotFoundError)(nil); errors.As(err, &gone) {
		return r.e.admission.Abandoned(ctx, rec) // with its placement
	}
	if errors.Is(err, backend.ErrConflict) {
		r.look(rec.Run.Name, time.Now().Add(time.Millisecond))
		return nil
	}
	return err
}

func (r *Runner) driven(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drivers[name] != nil
}

// needsDriver reports whether a run has anything to do: it has not ended, its end
// has not been seen to, or somebody asks something of it.
func (e *engine) needsDriver(ctx context.Context, rec *record.Run) bool {
	if !rec.Run.IsEnded() || rec.Lease.Holder != "" {
		return true
	}
	_, taken, err := e.commands.List(ctx, rec.Run.UID)
	return err != nil || len(e.heard(ctx, &rec.Run, taken)) > 0
}

// heard deletes the commands that a run has taken in already, and returns the
// others. One that cannot be deleted does no harm.
func (e *engine) heard(ctx context.Context, r *stages.Run, taken []commands.Stored) []commands.Stored {
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
func hasHeard(r *stages.Run, id string) bool { return id == "" || slices.Contains(r.Seen, id) }

// drive starts the driver of a run whose lease was taken with a placement's record,
// which need not be read again: the write was conditional. over is called when the
// run is not driven any more.
func (r *Runner) drive(ctx context.Context, rec *record.Run, rev backend.Revision, plan *stages.Plan, p *record.Placement, over func()) {
	d := newDriver(r.e, rec, rev, plan)
	d.coOwnership, d.secretKey, d.admitted = p.Placement.AllowCoOwnership, p.Key, p.HasRun(d.uid)
	d.first = p
	r.mu.Lock()
	delete(r.sights, d.name)
	r.drivers[d.name] = d
	if r.fleet != nil {
		d.tellFleet(r.fleet)
	}
	r.mu.Unlock()
	r.driving.Go(func() { r.mind(ctx, d, over) })
}

// settle is how long a run that has ended is left before it is read, for commands that
// came meanwhile: the watch announces the last save of its driver, too, and one read
// serves both.
const settle = 10 * time.Millisecond

// mind runs a driver to its end and looks after what it leaves.
func (r *Runner) mind(ctx context.Context, d *driver, over func()) {
	began, ended := time.Now(), d.rec.Run.IsEnded()
	err := d.run(ctx)
	over()
	r.mu.Lock()
	delete(r.drivers, d.name)
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		d.giveBack(context.WithoutCancel(ctx))
	case err == nil && ended:
		// It was only asked something: if it still is, not again at once.
		r.restUntil(d, r.lookLater(d.name, began, nil))
	case err == nil:
		r.forgive(d.name)
		r.look(d.name, time.Now().Add(settle))
	case errors.Is(err, errRetake):
		r.forgive(d.name)
		r.look(d.name, time.Now())
	default:
		r.e.log.Warn("a run was let go", "run", d.name, "error", err)
		d.letGo(ctx)
		r.restUntil(d, r.lookLater(d.name, began, err))
	}
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
