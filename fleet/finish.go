package fleet

import (
	"context"
	"slices"

	"github.com/slipway-dev/slipway/stages"
)

// finish sees to the end of a run: its placement is given free, what it
// reached is recorded, and its lease is given back last. It may be repeated.
func (d *driver) finish(ctx context.Context) error {
	for _, w := range d.workers {
		w.cancel()
	}
	e, run := d.e, &d.rec.Run
	var old rosterHead
	trimmed := false
	rec, err := e.updatePlacement(ctx, run.Placement, func(rec *placementRecord) ([]stages.Event, error) {
		i := slices.IndexFunc(rec.Runs, func(r runEntry) bool { return r.UID == run.UID })
		if i < 0 || rec.Runs[i].Ended == run.State {
			return nil, errUnchanged
		}
		rec.Runs[i].Ended = run.State
		rec.Line = rec.Line.Leave(run.UID)
		old = rec.Roster
		if err := d.reached(ctx, rec); err != nil {
			return nil, err
		}
		trimmed = rec.trim()
		return nil, nil
	})
	if err != nil && !isNotFound(err) {
		return err
	}
	if err == nil && old != rec.Roster && old.Pages > 0 {
		e.dropRoster(ctx, run.Placement, old)
	}
	if err := d.pages.sweep(ctx, d.rec.Lease.Epoch); err != nil {
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

// reached records what the run means for the snapshots and clusters that are
// still needed.
func (d *driver) reached(ctx context.Context, rec *placementRecord) error {
	if d.rec.Whole && whole(&d.rec.Run) {
		if last := rec.Whole; last != nil && *last != d.plan.Index {
			rec.Previous = last
		}
		rec.Whole = &d.plan.Index
		rec.InUse = rec.stillWanted(d.plan.Index)
	}
	roster, err := d.e.readRoster(ctx, rec)
	if err != nil {
		return err
	}
	if struckOff(roster, d.plan, &d.rec.Run) {
		rec.Roster, err = d.e.writeRoster(ctx, rec, roster)
	}
	return err
}

// stillWanted are the indexes in use when every cluster has come to index:
// that one, and those of runs that have not ended.
func (rec *placementRecord) stillWanted(index int) []int {
	out := []int{index}
	for _, r := range rec.Runs {
		if r.Ended == "" && !slices.Contains(out, r.Index) {
			out = append(out, r.Index)
		}
	}
	return out
}

// whole tells whether a run has brought every cluster that is still there to
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
	rev, err := d.e.store.Put(ctx, runKey(d.name), encodeRecord(&next), d.rev)
	if err != nil {
		return err
	}
	d.rec, d.rev = &next, rev
	return nil
}
