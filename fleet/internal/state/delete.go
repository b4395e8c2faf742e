package state

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// Deleted removes a run whose record was deleted from its caps and its placement.
func (st *State) Deleted(ctx context.Context, d deletedRun) error {
	if err := st.leaveCaps(ctx, d.UID); err != nil {
		return err
	}
	_, _, err := st.Advance(ctx, d.placement, &Transition{
		Input:   Always(lifecycle.RunDeleted{Entry: lifecycle.Entry{UID: d.UID, Run: d.Name, Index: d.Index}, Plan: d.Plan, Started: d.started}),
		deleted: d.record,
	})
	if IsNotFound(err) { // nothing refers to what is stored of it
		return st.Erase(ctx, d.Run)
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

// Gone returns what the deleted record says of its run.
func Gone(rr *record.Run) deletedRun {
	known := lifecycle.Run{Name: rr.Run.Name, UID: rr.Run.UID, Plan: rr.Run.Plan}
	return deletedRun{known, rr.Run.Placement, rr, rr.Run.Started != 0}
}

// DeleteRecord deletes the record of a run and returns what is known of it. A
// run without a record that a placement still knows was half deleted.
func (st *State) DeleteRecord(ctx context.Context, name string) (deletedRun, error) {
	for {
		rr, rev, err := st.Run(ctx, name)
		if newer := (*stages.FormatError)(nil); errors.As(err, &newer) {
			return deletedRun{}, err
		}
		if IsNotFound(err) || errors.Is(err, backend.ErrPermanent) {
			return st.deleteUnreadable(ctx, name, rev, err)
		}
		if err != nil {
			return deletedRun{}, err
		}
		err = st.store.Delete(ctx, record.RunKey(name), rev)
		if err == nil || IsNotFound(err) {
			return Gone(rr), nil
		}
		if !errors.Is(err, backend.ErrConflict) {
			return deletedRun{}, err
		}
	}
}

// deleteUnreadable deletes the record of a run that cannot be read, if there is one, and searches the
// placements for the one that has the run.
func (st *State) deleteUnreadable(ctx context.Context, name string, rev backend.Revision, cause error) (deletedRun, error) {
	if rev != "" {
		if err := st.store.Delete(ctx, record.RunKey(name), rev); err != nil && !IsNotFound(err) {
			return deletedRun{}, err
		}
	}
	for rec, err := range st.store.List(ctx, "placement/") {
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

// Erase deletes what is stored of a run besides its plan. The intent is left for the next collection, which
// finds what a paused driver of the run has written meanwhile.
func (st *State) Erase(ctx context.Context, r lifecycle.Run) error {
	rr, rev, err := st.Run(ctx, r.Name)
	if err == nil && rr.Run.UID == r.UID {
		err = st.store.Delete(ctx, record.RunKey(r.Name), rev)
	}
	if err != nil && !IsNotFound(err) && !errors.Is(err, backend.ErrPermanent) {
		return err
	}
	for _, prefix := range record.OwnPrefixes(r.UID) {
		record.DiscardAll(ctx, st.store, prefix)
	}
	return nil
}
