package admission

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Continue takes one step of the deletion of a placement, or of the planning of a rollback, and
// reports whether there is nothing left to do. Any engine may call it at any time, and several may
// at once: each step is a compare-and-swap or idempotent. If another engine has taken the step,
// that is no error.
func (ad *Admitter) Continue(ctx context.Context, name string) (done bool, err error) {
	done, err = ad.proceed(ctx, name)
	if !state.IsNotFound(err) && !errors.Is(err, backend.ErrConflict) {
		return done, err
	}
	if _, _, missing := ad.state.Placement(ctx, name); state.IsNotFound(missing) {
		return true, nil
	}
	return false, err
}

// proceed is Continue without regard to the steps that other engines take at the same time.
func (ad *Admitter) proceed(ctx context.Context, name string) (done bool, err error) {
	rec, _, err := ad.state.Placement(ctx, name)
	if state.IsNotFound(err) || err == nil && !rec.IsUnderway() {
		return true, nil
	}
	if err == nil && rec.Deleting == nil {
		return false, ad.continueRollback(ctx, rec)
	}
	if err != nil {
		return false, err
	}
	d, rev, err := ad.state.DeletedAt(ctx, name)
	if err != nil {
		return false, err
	}
	if d.UID == rec.UID && d.Report != nil {
		return true, ad.purge(ctx, rec)
	}
	rr, _, err := ad.state.Run(ctx, rec.Deleting.Run)
	switch {
	case rec.Deleting.Run == "": // no cluster has objects of it
	case state.IsNotFound(err):
		return false, ad.clean(ctx, rec)
	case err != nil:
		return false, err
	case !rr.Run.IsEnded() || rr.Lease.Holder != "":
		return false, ad.supersedeAll(ctx, rec, rr)
	}
	if err := ad.conclude(ctx, rec, rev); err != nil {
		return false, err
	}
	return true, ad.purge(ctx, rec)
}

// clean records the run that cleans the clusters of a placement that is being deleted. If another
// engine has recorded it first, that is no error.
func (ad *Admitter) clean(ctx context.Context, rec *record.Placement) error {
	d, err := ad.planner.DraftDeletion(ctx, rec)
	if err != nil {
		return err
	}
	run := step.NewRun(d.Plan, rec.Deleting.Run, record.NewUID(), approval.Identity{Name: rec.Deleting.By}, false, ad.state.Now())
	rr := &record.Run{Run: run, Of: rec.UID, Final: rec.Deleting.End, GCGeneration: rec.GCGeneration}
	if err := ad.storeDraft(ctx, rr, d); err != nil {
		return err
	}
	err = ad.putRun(ctx, rr)
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = ad.Admit(ctx, rr, d); err != nil && !guard.Transient(err) {
		err = ad.Withdraw(ctx, rr, err)
	}
	return err // if the run was not admitted, its driver admits it
}

// supersedeAll sends a Supersede command to the other unfinished runs of a placement.
func (ad *Admitter) supersedeAll(ctx context.Context, rec *record.Placement, by *record.Run) error {
	out, err := lifecycle.Advance(rec.State, lifecycle.DeletionContinued{Entry: lifecycle.Entry{UID: by.Run.UID, Run: by.Run.Name}}, lifecycle.Facts{})
	if err != nil {
		return state.HostError(err)
	}
	return ad.state.CarryOut(ctx, rec, out.After)
}

// conclude records the result of a deletion before any data is deleted.
func (ad *Admitter) conclude(ctx context.Context, rec *record.Placement, prev backend.Revision) error {
	report, err := ad.Report(ctx, rec)
	if err != nil {
		return err
	}
	if err := ad.addReleased(ctx, rec.Deleting.Run, report); err != nil {
		return err
	}
	d := record.Deleted{Format: record.Format, UID: rec.UID, Epoch: rec.Epoch, Report: report}
	_, err = ad.store.Put(ctx, record.DeletedKey(rec.Placement.Name), record.Encode(d), prev)
	if errors.Is(err, backend.ErrConflict) {
		return nil // another engine recorded it
	}
	return err
}

// addReleased adds to a report the objects that the cleaning run released, from the events of that
// run.
func (ad *Admitter) addReleased(ctx context.Context, run string, report *record.DeletionReport) error {
	rr, _, err := ad.state.Run(ctx, run)
	if state.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	pages, err := record.ReadJournal(ctx, ad.store, rr.Run.UID, rr.Journal, 0)
	if state.IsLasting(err) {
		return nil // the released objects still exist, and carry the mark that they are no longer the placement's
	}
	if err != nil {
		return err
	}
	for _, page := range pages {
		for _, text := range page.Events {
			var ev stages.Event
			if json.Unmarshal(text, &ev) == nil && ev.Type == stages.ObjectsReleased {
				report.Release(ev.Cluster, ev.Message)
			}
		}
	}
	return nil
}

// tellGone records once, with an event, that the placement is gone.
func (ad *Admitter) tellGone(ctx context.Context, rec *record.Placement) error {
	name := rec.Placement.Name
	d, rev, err := ad.state.DeletedAt(ctx, name)
	if err != nil || d.UID != rec.UID || d.Report == nil || d.Report.Ended != 0 {
		return err
	}
	now := ad.state.Now()
	d.Epoch, d.Report.Ended = max(d.Epoch, rec.Epoch), stages.At(now)
	ev := stages.Event{Time: now, Type: stages.PlacementDeleted, Placement: name, By: d.Report.By, Count: d.Report.Done, Message: d.Report.Summary()}
	d.Journal = record.Journal{Events: 1, Last: []json.RawMessage{record.Encode(&ev)}}
	_, err = ad.store.Put(ctx, record.DeletedKey(name), record.Encode(d), rev)
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}
