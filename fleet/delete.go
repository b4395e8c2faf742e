package fleet

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// DeleteRun deletes a run, whatever its state, and gives its placement free. An
// engine that drives it is fenced; what is in flight to clusters is left as it
// is, and the next run sees to it. It cannot be undone. A run whose record is
// damaged can be deleted, one that a newer version wrote cannot.
//
// After an error it may be called again, and ends what it had begun.
func (e *Engine) DeleteRun(ctx context.Context, name string) error {
	d, err := e.deleteRecord(ctx, name)
	if err != nil {
		return err
	}
	return e.deleted(ctx, d)
}

// deleted sees to what is left of a run whose record was deleted.
func (e *Engine) deleted(ctx context.Context, d deletedRun) error {
	if err := e.leaveCaps(ctx, d.UID); err != nil {
		return err
	}
	r, placement, known := d.runEntry, d.placement, false
	rec, err := e.updatePlacement(ctx, placement, func(rec *placementRecord) ([]stages.Event, error) {
		if known = rec.hasRun(r.UID); !known {
			return nil, errUnchanged
		}
		dropped := rec.drop(func(other runEntry) bool { return other.UID == r.UID })[0]
		if d.started && dropped.Ended == "" {
			if err := e.leftBehind(ctx, rec, dropped, d.run); err != nil {
				return nil, err
			}
		}
		rec.trim()
		return []stages.Event{{Type: stages.RunDeleted, Run: r.Name}}, nil
	})
	switch {
	case isNotFound(err) || err == nil && !known:
		return e.eraseUnadmitted(ctx, rec, r)
	case err != nil:
		return err
	}
	e.collect(ctx, placement)
	return nil
}

// leftBehind takes in that clusters may hold what a run brought that was
// deleted, as far as it was known, before it ended.
func (e *Engine) leftBehind(ctx context.Context, rec *placementRecord, r runEntry, run *stages.Run) error {
	rec.Base = nil
	held, err := e.readRoster(ctx, rec)
	if errors.Is(err, backend.ErrPermanent) {
		rec.InUse = append(rec.InUse, r.Index)
		return nil
	}
	if err != nil {
		return err
	}
	p, err := e.readPlan(ctx, r.Plan)
	switch {
	case err == nil:
		if !held.doubt(p, run) {
			return nil
		}
	case isLasting(err):
		held.doubtAll(r.Index)
	default:
		return err
	}
	rec.setRoster(held)
	return nil
}

// deletedRun is what is known of a run whose record was deleted.
type deletedRun struct {
	runEntry
	placement string
	// run is its last state, without the clusters in flight; nil if it cannot be
	// read.
	run *stages.Run
	// started reports whether clusters may hold what it brought.
	started bool
}

// gone is what a record that was deleted tells of its run.
func gone(rr *runRecord) deletedRun {
	entry := runEntry{Name: rr.Run.Name, UID: rr.Run.UID, Plan: rr.Run.Plan}
	return deletedRun{entry, rr.Run.Placement, &rr.Run, rr.Run.Started != 0}
}

// deleteRecord deletes the record of a run and returns what is known of it. A
// run without a record that a placement still knows was half deleted.
func (e *Engine) deleteRecord(ctx context.Context, name string) (deletedRun, error) {
	for {
		rr, rev, err := e.runAt(ctx, name)
		if newer := (*stages.FormatError)(nil); errors.As(err, &newer) {
			return deletedRun{}, err
		}
		if isNotFound(err) || errors.Is(err, backend.ErrPermanent) {
			return e.deleteUnreadable(ctx, name, rev, err)
		}
		if err != nil {
			return deletedRun{}, err
		}
		err = e.store.Delete(ctx, runKey(name), rev)
		if err == nil || isNotFound(err) {
			return gone(rr), nil
		}
		if !errors.Is(err, backend.ErrConflict) {
			return deletedRun{}, err
		}
	}
}

// deleteUnreadable deletes the record of a run that cannot be read, if there is
// one, and looks for the placement that knows the run.
func (e *Engine) deleteUnreadable(ctx context.Context, name string, rev backend.Revision, cause error) (deletedRun, error) {
	if rev != "" {
		if err := e.store.Delete(ctx, runKey(name), rev); err != nil && !isNotFound(err) {
			return deletedRun{}, err
		}
	}
	for rec, err := range e.store.List(ctx, "placement/") {
		if err != nil {
			return deletedRun{}, err
		}
		var p placementRecord
		if decodeRecord(rec, &p) != nil {
			continue
		}
		for _, r := range p.Runs {
			if r.Name == name {
				return deletedRun{r, p.Placement.Name, nil, true}, nil
			}
		}
	}
	return deletedRun{}, cause
}

// eraseUnadmitted deletes what is stored of a run that its placement does not
// know, and that nothing refers to.
func (e *Engine) eraseUnadmitted(ctx context.Context, rec *placementRecord, r runEntry) error {
	if rec == nil {
		return e.erase(ctx, r)
	}
	_, err := e.updatePlacement(ctx, rec.Placement.Name, func(rec *placementRecord) ([]stages.Event, error) {
		rec.Retired = append(rec.Retired, r)
		return nil, nil
	})
	if err == nil {
		e.collect(ctx, rec.Placement.Name)
	}
	return err
}

// erase deletes what is stored of a run besides its plan. That it was begun is
// left for the next collection, which finds what somebody who drove the run and
// was held up has written meanwhile.
func (e *Engine) erase(ctx context.Context, r runEntry) error {
	rr, rev, err := e.runAt(ctx, r.Name)
	if err == nil && rr.Run.UID == r.UID {
		err = e.store.Delete(ctx, runKey(r.Name), rev)
	}
	if err != nil && !isNotFound(err) && !errors.Is(err, backend.ErrPermanent) {
		return err
	}
	for _, prefix := range ownPrefixes(r.UID) {
		e.discardAll(ctx, prefix)
	}
	return nil
}
