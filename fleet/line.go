package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// queue learns whether it is the run's turn on its placement, and asks those
// that are in its way to make way where it may.
func (d *driver) queue(ctx context.Context) error {
	run, first := &d.rec.Run, d.first
	d.in.Blocked, d.first = "", nil
	starting := slices.ContainsFunc(d.in.Commands, func(c stages.Command) bool {
		return c.Verb == stages.Start || c.Verb == stages.Retry && run.State != stages.NotStarted
	})
	switch {
	case run.Final(d.plan):
		return nil
	case run.State == stages.Failed && starting:
		return d.queueAgain(ctx)
	case run.Started != 0 || run.Hold && !starting || run.State == stages.Stopped && !starting:
		return nil
	}
	entry := stages.Entry{UID: run.UID, Run: run.Name, Index: d.plan.Index}
	if first != nil && first.hasTurn(entry) {
		return nil
	}
	var v stages.Verdict
	rec, err := d.e.updatePlacement(ctx, run.Placement, func(rec *placementRecord) ([]stages.Event, error) {
		if err := rec.awaits(run.UID); err != nil {
			return nil, err
		}
		if rec.Deleting != nil && !rec.cleans(run.Name) {
			v = stages.Verdict{SupersededBy: rec.Deleting.Run}
			return nil, errUnchanged
		}
		before := rec.Line
		events, err := d.clearWay(ctx, rec)
		if err != nil {
			return nil, err
		}
		line, verdict, err := rec.Line.Enter(entry, rec.lateAdmission())
		v = verdict
		if err != nil || sameLine(line, before) {
			return nil, errors.Join(err, errUnchanged)
		}
		rec.Line = line
		return events, nil
	})
	if err != nil {
		return err
	}
	if v.Starts && rec.Epoch != d.epoch {
		return fmt.Errorf("run %s: its turn has come at epoch %d, and it was taken at %d: %w", d.name, rec.Epoch, d.epoch, errRetake)
	}
	d.in.Blocked = cmp.Or(v.WaitsFor, v.SupersededBy)
	if v.SupersededBy != "" {
		d.in.Commands = append(d.in.Commands, stages.Command{ID: ownID + "superseded", Verb: stages.Supersede, Message: v.SupersededBy})
	}
	return d.e.supersede(ctx, run.Name, run.UID, v.Supersedes)
}

// hasTurn reports whether a run that has not started has the placement and may start, by
// the record that it was taken with. Safe when stale: a run keeps its place until it has
// ended, and what ends or deletes it makes the save of the turn fail, which is
// conditional on the run's record that was written with the placement's.
func (rec *placementRecord) hasTurn(e stages.Entry) bool {
	active := rec.Line.Active
	if active == nil || active.UID != e.UID || rec.Deleting != nil || rec.awaits(e.UID) != nil {
		return false
	}
	_, v, err := rec.Line.Enter(e, rec.lateAdmission())
	return err == nil && v.Starts && v.SupersededBy == "" && len(v.Supersedes) == 0
}

// clearWay is that of the engine for a run that has not begun. Where the run has the
// placement already, nobody is in its way.
func (d *driver) clearWay(ctx context.Context, rec *placementRecord) ([]stages.Event, error) {
	if active := rec.Line.Active; active != nil && active.UID == d.uid {
		return nil, nil
	}
	return d.e.clearWay(ctx, rec)
}

// clearWay takes in that the run which has the placement has ended, and takes out of the
// line who is in the way and will not go.
func (e *Engine) clearWay(ctx context.Context, rec *placementRecord) ([]stages.Event, error) {
	events, err := e.clearActive(ctx, rec)
	if err != nil || rec.Line.Active != nil {
		return events, err
	}
	return events, e.clearLine(ctx, rec)
}

// awaits returns why a run that has not started as far as its driver knows does
// not belong into the line: somebody else has brought it to its end, or deleted
// it.
func (rec *placementRecord) awaits(uid string) error {
	switch r := rec.entry(uid); {
	case r == nil:
		return fmt.Errorf("the run was deleted: %w", backend.ErrNotFound)
	case r.Ended != "":
		return fmt.Errorf("run %s has ended, it is %s: %w", r.Name, r.Ended, backend.ErrFenced)
	}
	return nil
}

// lateAdmission is how a run that was held enters the line: it is too late to
// reject it.
func (rec *placementRecord) lateAdmission() stages.Admission {
	if rec.Placement.Admission == stages.RejectRun {
		return stages.QueueRun
	}
	return rec.Placement.Admission
}

// queueAgain lets a failed run that is started again have the placement, if
// nobody else has it or waits for it.
func (d *driver) queueAgain(ctx context.Context) error {
	entry := stages.Entry{UID: d.uid, Run: d.name, Index: d.plan.Index}
	_, err := d.e.updatePlacement(ctx, d.placement, func(rec *placementRecord) ([]stages.Event, error) {
		if rec.Deleting != nil {
			d.in.Blocked = rec.Deleting.Run
			return nil, errUnchanged
		}
		events, err := d.e.clearWay(ctx, rec)
		if err != nil {
			return nil, err
		}
		next := entry
		if rec.Line.Active != nil {
			next = *rec.Line.Active
		} else if len(rec.Line.Waiting) > 0 {
			next = rec.Line.Waiting[0]
		}
		if next.UID != d.uid {
			d.in.Blocked = next.Run
			return nil, errUnchanged
		}
		rec.Line, _, err = rec.Line.Enter(entry, stages.QueueRun)
		rec.unend(d.uid, d.rec.Run.Attempt+1)
		return events, err
	})
	return err
}

// unend takes in that a run which had failed is started again.
func (rec *placementRecord) unend(uid string, attempt int) {
	if r := rec.entry(uid); r != nil {
		r.Ended, r.Restart = "", attempt
	}
}

// restarts reports whether a run which has failed is about to be started again.
func (rec *placementRecord) restarts(r *stages.Run) bool {
	e := rec.entry(r.UID)
	return e != nil && e.Restart > r.Attempt
}

func sameLine(a, b stages.Line) bool {
	return (a.Active == b.Active || a.Active != nil && b.Active != nil && *a.Active == *b.Active) &&
		slices.Equal(a.Waiting, b.Waiting) && slices.Equal(a.Superseded, b.Superseded)
}
