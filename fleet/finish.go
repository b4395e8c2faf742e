package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// finish sees to the end of a run: its placement is given free, what it
// reached is recorded, and its lease is given back last. It may be repeated.
func (d *driver) finish(ctx context.Context) error {
	for _, w := range d.workers {
		w.cancel()
	}
	e, run := d.e, &d.rec.Run
	trimmed := false
	_, err := e.updatePlacement(ctx, run.Placement, func(rec *placementRecord) ([]stages.Event, error) {
		if err := d.stillHeld(ctx); err != nil {
			return nil, err
		}
		if r := rec.entry(run.UID); r == nil || r.Ended == run.State && !d.undoes(rec) {
			return nil, errUnchanged
		}
		events, err := d.takeIn(ctx, rec)
		if err == nil {
			trimmed = rec.trim()
		}
		return events, err
	})
	if gone := (*NotFoundError)(nil); err != nil && !errors.As(err, &gone) {
		return err // what is gone with its placement needs nothing more
	}
	if d.share.name != "" {
		if err := e.leaveCap(ctx, d.share.name, d.uid, d.epoch); err != nil {
			return err
		}
	}
	if err := d.pages.sweep(ctx, d.rec.Lease.Epoch, d.rec.Flights.names()); err != nil {
		return err
	}
	if err := d.release(ctx); err != nil {
		return err
	}
	if trimmed {
		e.collect(ctx, run.Placement)
	}
	return errDone
}

// takeIn takes in what a run that has ended means for its placement: which clusters
// have what, who comes next, and whether the run is taken back.
func (d *driver) takeIn(ctx context.Context, rec *placementRecord) ([]stages.Event, error) {
	run, before, inUse := &d.rec.Run, rec.Roster, rec.InUse
	if err := d.reached(ctx, rec); err != nil {
		return nil, err
	}
	d.rebase(rec, before, inUse)
	by := superseder(rec.Line, run.UID)
	if r := rec.entry(run.UID); r != nil {
		r.Ended = run.State
	}
	rec.Line = rec.Line.Leave(run.UID)
	return d.undo(rec, by), nil
}

// clearActive takes the run which has the placement out of the line where it has
// ended or was deleted, and takes in how it ended, where whoever drove it did not
// live to do so: nobody may change a cluster before it is known what the clusters
// have. One look at the run decides both, or it could end between two and leave
// without being taken in. A run whose record cannot be read is waited for; one that
// has ended, and whose plan or pages cannot be read, leaves as if it was deleted.
func (e *Engine) clearActive(ctx context.Context, rec *placementRecord) ([]stages.Event, error) {
	active := rec.Line.Active
	if active == nil || rec.reserves(active.UID) {
		return nil, nil
	}
	rr, rev, err := e.runAt(ctx, active.Run)
	switch {
	case isNotFound(err) || err == nil && rr.Run.UID != active.UID:
	case isLasting(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !rr.Run.IsEnded() || rec.restarts(&rr.Run):
		return nil, nil
	case rec.hasRun(active.UID):
		d, err := e.driverOf(ctx, rr, rev)
		if err == nil {
			return d.takeIn(ctx, rec)
		}
		if !isLasting(err) {
			return nil, err
		}
	}
	rec.Line = rec.Line.Leave(active.UID)
	return nil, nil
}

// driverOf returns a driver of a run that has ended, with all that the run is.
func (e *Engine) driverOf(ctx context.Context, rr *runRecord, rev backend.Revision) (*driver, error) {
	p, err := e.readPlan(ctx, rr.Run.Plan)
	if err != nil {
		return nil, err
	}
	if rr, err = e.withFlights(ctx, rr); err != nil {
		return nil, err
	}
	return newDriver(e, rr, rev, p), rr.check(p)
}

// stillHeld returns an error once another engine has the run, which may have
// been started again. It is called after the placement's record is read, which
// that engine writes before it takes the run.
func (d *driver) stillHeld(ctx context.Context) error {
	held, err := d.held(ctx)
	if err == nil && !held {
		err = fmt.Errorf("run %s: %w: it has ended at epoch %d, and somebody else has it by now", d.name, backend.ErrFenced, d.epoch)
	}
	return err
}

// reached records what the run means for the snapshots and clusters that are
// still needed.
func (d *driver) reached(ctx context.Context, rec *placementRecord) error {
	r, err := d.e.readRoster(ctx, rec)
	if err != nil {
		return err
	}
	fresh := r.take(d.plan, &d.rec.Run)
	if d.lost(ctx, r) || fresh {
		rec.setRoster(r)
	}
	rec.InUse = r.inUse()
	everywhere := d.rec.Whole || slices.Equal(rec.InUse, []int{d.plan.Index})
	if everywhere && whole(&d.rec.Run) {
		if last := rec.Whole; last != nil && *last != d.plan.Index {
			rec.Previous = last
		}
		rec.Whole = &d.plan.Index
	}
	return nil
}

// lost takes in that clusters have left the inventory, and reports whether there
// are any. A run of all clusters that there are knows the others: what it does
// not know has left, or joined after it was planned.
func (d *driver) lost(ctx context.Context, r roster) bool {
	if !d.rec.Whole {
		return false
	}
	strangers := r.strangers(d.plan)
	if len(strangers) == 0 {
		return false
	}
	inventory, err := d.e.inventory(ctx)
	if err != nil {
		return false // they are looked for when the next run ends
	}
	fresh := false
	for _, name := range strangers {
		if _, known := inventory[name]; !known {
			fresh = r.lose(name) || fresh
		}
	}
	return fresh
}

// whole reports whether a run has brought every cluster that is still there to
// its plan's revision.
func whole(r *stages.Run) bool {
	if r.State != stages.Completed {
		return false
	}
	for _, x := range r.Exceptions {
		if !x.Gone {
			return false
		}
	}
	return true
}

// release saves the ended run without a holder.
func (d *driver) release(ctx context.Context) error {
	next := *d.rec
	next.Lease.Holder, next.Lease.Until = "", 0
	next.Seq++
	rev, err := d.e.store.Put(ctx, runKey(d.name), next.encode(), d.rev)
	if err != nil {
		return err
	}
	d.rec, d.rev = &next, rev
	return nil
}
