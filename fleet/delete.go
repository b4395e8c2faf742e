package fleet

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// DeleteRun deletes a run, whatever its state, and gives its placement free. An engine that drives it is
// fenced; what is in flight to clusters is left as it is, and the next run completes it. It cannot be undone.
// A run whose record is damaged can be deleted, one that a newer version wrote cannot.
//
// After an error it may be called again, and ends what it had begun.
func (e *Engine) DeleteRun(ctx context.Context, name string) error {
	d, err := e.deleteRecord(ctx, name)
	if err != nil {
		return err
	}
	return e.deleted(ctx, d)
}

// deleted removes a run whose record was deleted from its caps and its placement.
func (e *Engine) deleted(ctx context.Context, d deletedRun) error {
	if err := e.leaveCaps(ctx, d.UID); err != nil {
		return err
	}
	_, _, err := e.advance(ctx, d.placement, &transition{
		input:   on(lifecycle.RunDeleted{Entry: lifecycle.Entry{UID: d.UID, Run: d.Name, Index: d.Index}, Plan: d.Plan, Started: d.started}),
		deleted: d.record,
	})
	if isNotFound(err) { // nothing refers to what is stored of it
		return e.erase(ctx, d.Run)
	}
	return err
}

// deletedRun is what is known of a run whose record was deleted.
type deletedRun struct {
	lifecycle.Run
	placement string
	// record is the last one that it had, nil where that cannot be read.
	record *record.Run
	// started reports whether clusters may have what it brought.
	started bool
}

// gone returns what the deleted record says of its run.
func gone(rr *record.Run) deletedRun {
	known := lifecycle.Run{Name: rr.Run.Name, UID: rr.Run.UID, Plan: rr.Run.Plan}
	return deletedRun{known, rr.Run.Placement, rr, rr.Run.Started != 0}
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
		err = e.store.Delete(ctx, record.RunKey(name), rev)
		if err == nil || isNotFound(err) {
			return gone(rr), nil
		}
		if !errors.Is(err, backend.ErrConflict) {
			return deletedRun{}, err
		}
	}
}

// deleteUnreadable deletes the record of a run that cannot be read, if there is one, and searches the
// placements for the one that has the run.
func (e *Engine) deleteUnreadable(ctx context.Context, name string, rev backend.Revision, cause error) (deletedRun, error) {
	if rev != "" {
		if err := e.store.Delete(ctx, record.RunKey(name), rev); err != nil && !isNotFound(err) {
			return deletedRun{}, err
		}
	}
	for rec, err := range e.store.List(ctx, "placement/") {
		if err != nil {
			return deletedRun{}, err
		}
		var p record.Placement
		if record.Decode(rec, &p) != nil {
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

// erase deletes what is stored of a run besides its plan. The intent is left for the next collection, which
// finds what a paused driver of the run has written meanwhile.
func (e *Engine) erase(ctx context.Context, r lifecycle.Run) error {
	rr, rev, err := e.runAt(ctx, r.Name)
	if err == nil && rr.Run.UID == r.UID {
		err = e.store.Delete(ctx, record.RunKey(r.Name), rev)
	}
	if err != nil && !isNotFound(err) && !errors.Is(err, backend.ErrPermanent) {
		return err
	}
	for _, prefix := range record.OwnPrefixes(r.UID) {
		record.DiscardAll(ctx, e.store, prefix)
	}
	return nil
}
