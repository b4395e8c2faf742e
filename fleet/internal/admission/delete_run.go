package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// DeleteRun deletes a run and releases its placement. It refuses to delete a run in progress unless
// force is set.
func (ad *Admitter) DeleteRun(ctx context.Context, name string, force bool) error {
	d, err := ad.deleteRecord(ctx, name, force)
	if err != nil {
		return err
	}
	return ad.deleted(ctx, d)
}

// deleted removes a run without a record from its caps and its placement.
func (ad *Admitter) deleted(ctx context.Context, d deletedRun) error {
	if err := ad.caps.LeaveAll(ctx, d.UID); err != nil {
		return err
	}
	_, _, err := ad.state.Advance(ctx, d.placement, &state.Transition{
		Input:      state.Always(lifecycle.RunDeleted{Entry: lifecycle.Entry{UID: d.UID, Run: d.Name, Index: d.Index}, Plan: d.Plan, Started: d.started}),
		LastRecord: d.record,
	})
	if state.IsNotFound(err) { // nothing refers to its stored data
		return ad.state.Erase(ctx, d.Run)
	}
	return err
}

// deletedRun describes a run whose record was deleted.
type deletedRun struct {
	lifecycle.Run
	placement string
	// record is the run's last record, nil if it was unreadable.
	record *record.Run
	// started reports whether the run may have changed clusters.
	started bool
}

// gone returns the description of a run from its deleted record.
func gone(rr *record.Run) deletedRun {
	known := lifecycle.Run{Name: rr.Run.Name, UID: rr.Run.UID, Plan: rr.Run.Plan}
	return deletedRun{known, rr.Run.Placement, rr, rr.Run.Started != 0}
}

// deleteRecord deletes the record of a run and returns its description. If the run has no record
// but a placement still knows it, an earlier deletion was interrupted, and the caller must complete
// it.
func (ad *Admitter) deleteRecord(ctx context.Context, name string, force bool) (deletedRun, error) {
	for {
		rr, rev, err := ad.state.Run(ctx, name)
		if newer := (*versioned.FormatError)(nil); errors.As(err, &newer) {
			return deletedRun{}, err
		}
		if state.IsNotFound(err) || errors.Is(err, backend.ErrPermanent) {
			return ad.deleteUnreadable(ctx, name, rev, err)
		}
		if err != nil {
			return deletedRun{}, err
		}
		if state := rr.Run.State; !force && (state == stages.Running || state == stages.Stopping) {
			refused := &stages.RefusedError{Verb: "Delete", State: state, Reason: "stop or abort it first, or force the deletion"}
			return deletedRun{}, fmt.Errorf("run %s: %w", name, refused)
		}
		err = ad.store.Delete(ctx, record.RunKey(name), rev)
		if err == nil || state.IsNotFound(err) {
			return gone(rr), nil
		}
		if !errors.Is(err, backend.ErrConflict) {
			return deletedRun{}, err
		}
	}
}

// deleteUnreadable deletes the record of a run that is unreadable or missing, and searches the
// placements for the one that has the run.
func (ad *Admitter) deleteUnreadable(ctx context.Context, name string, rev backend.Revision, cause error) (deletedRun, error) {
	if rev != "" {
		if err := ad.store.Delete(ctx, record.RunKey(name), rev); err != nil && !state.IsNotFound(err) {
			return deletedRun{}, err
		}
	}
	for rec, err := range ad.store.List(ctx, "placement/") {
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
