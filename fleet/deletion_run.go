package fleet

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// continuePlacement takes the deletion of a placement, or the planning of a rollback, one step on, and
// reports whether there is nothing more to do. Any engine may call it at any time, and several at once: each
// step is a compare-and-swap, or idempotent.
func (e *Engine) continuePlacement(ctx context.Context, name string) (done bool, err error) {
	rec, _, err := e.placementAt(ctx, name)
	if isNotFound(err) || err == nil && !rec.IsUnderway() {
		return true, nil
	}
	if err == nil && rec.Deleting == nil {
		return false, e.continueRollback(ctx, rec)
	}
	if err != nil {
		return false, err
	}
	d, rev, err := e.deletedAt(ctx, name)
	if err != nil {
		return false, err
	}
	if d.UID == rec.UID && d.Report != nil {
		return true, e.purge(ctx, rec)
	}
	rr, _, err := e.runAt(ctx, rec.Deleting.Run)
	switch {
	case isNotFound(err):
		return false, e.clean(ctx, rec)
	case err != nil:
		return false, err
	case !rr.Run.IsEnded() || rr.Lease.Holder != "":
		return false, e.supersedeAll(ctx, rec, rr)
	}
	return false, e.conclude(ctx, rec, rev)
}

// clean records the run that cleans the clusters of a placement which is being deleted. It is no error where
// another engine has recorded it first.
func (e *Engine) clean(ctx context.Context, rec *record.Placement) error {
	d, err := e.draftDeletion(ctx, rec)
	if err != nil {
		return err
	}
	run := stages.NewRun(d.plan, rec.Deleting.Run, record.NewUID(), approval.Identity{Name: rec.Deleting.By}, false, e.now())
	rr := &record.Run{Run: run, Of: rec.UID, Final: rec.Deleting.End, GCGeneration: rec.GCGeneration}
	if err := e.storeDraft(ctx, rr, d); err != nil {
		return err
	}
	err = e.putRun(ctx, rr)
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = e.admit(ctx, rr, d); err != nil && !guard.Transient(err) {
		err = e.withdraw(ctx, rr, err)
	}
	return err // where it was not admitted, its driver does that
}

// draftDeletion plans the removal of everything from all clusters that may hold
// something and that the inventory knows.
func (e *Engine) draftDeletion(ctx context.Context, rec *record.Placement) (*draft, error) {
	d := &draft{sweeps: rec.GCGeneration}
	inventory, err := e.inventory(ctx)
	if err != nil {
		return nil, err
	}
	target := stages.Target{
		Placement: rec.Placement.Name, Snapshot: rec.UID, Decision: rec.UID, Revision: map[string]string{},
	}
	if last, ok := rec.Latest(); ok {
		target.Index, target.Snapshot = last.Index, last.Digest
	}
	held, err := e.bindingsOf(ctx, rec)
	if err != nil {
		return nil, err
	}
	target.Remove = unpicked(held, d.decision, inventory)
	d.plan, err = stages.NewPlan(cleaning(rec.Deleting), target, nil)
	return d, err
}

// supersedeAll sends a Supersede command to the runs of a placement.
func (e *Engine) supersedeAll(ctx context.Context, rec *record.Placement, by *record.Run) error {
	out, err := lifecycle.Advance(rec.State, lifecycle.DeletionContinued{Entry: lifecycle.Entry{UID: by.Run.UID, Run: by.Run.Name}}, lifecycle.Facts{})
	if err != nil {
		return hostError(err)
	}
	return e.carryOut(ctx, rec, out.After)
}

// conclude records how a deletion ended, before anything is forgotten.
func (e *Engine) conclude(ctx context.Context, rec *record.Placement, prev backend.Revision) error {
	report, err := e.report(ctx, rec)
	if err != nil {
		return err
	}
	d := record.Deleted{Format: record.Format, UID: rec.UID, Epoch: rec.Epoch, Report: report}
	_, err = e.store.Put(ctx, record.DeletedKey(rec.Placement.Name), record.Encode(d), prev)
	if errors.Is(err, backend.ErrConflict) {
		return nil // another engine did
	}
	return err
}

// tellGone reports that everything is gone, once.
func (e *Engine) tellGone(ctx context.Context, rec *record.Placement) error {
	name := rec.Placement.Name
	d, rev, err := e.deletedAt(ctx, name)
	if err != nil || d.UID != rec.UID || d.Report == nil || d.Report.Ended != 0 {
		return err
	}
	now := e.now()
	d.Epoch, d.Report.Ended = max(d.Epoch, rec.Epoch), stages.At(now)
	ev := stages.Event{Time: now, Type: stages.PlacementDeleted, Placement: name, By: d.Report.By, Count: d.Report.Done, Message: d.Report.Summary()}
	d.Journal = record.Journal{Events: 1, Last: []json.RawMessage{record.Encode(&ev)}}
	_, err = e.store.Put(ctx, record.DeletedKey(name), record.Encode(d), rev)
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}
