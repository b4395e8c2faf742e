package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/stages"
)

// withdraw deletes a run that was not admitted, and returns the cause. One that
// was admitted after all, by an engine that drives it or by a write that was
// reported as failed, stays: that is nil. So does one that an engine has taken
// since and is about to admit, where nothing but the outcome of a write is the
// cause; the record is deleted only as it was when nobody had.
func (e *Engine) withdraw(ctx context.Context, rr *runRecord, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.CallTimeout)
	defer cancel()
	for {
		now, rev, missing := e.runAt(ctx, rr.Run.Name)
		rec, _, err := e.placementAt(ctx, rr.Run.Placement)
		switch {
		case isNotFound(err):
			return errors.Join(cause, e.abandoned(ctx, rr))
		case err != nil:
			return errors.Join(cause, err)
		case rec.hasRun(rr.Run.UID):
			return nil
		case missing != nil || now.Run.UID != rr.Run.UID:
			return cause
		case now.Lease.Epoch != rr.Lease.Epoch && isOpen(cause):
			return nil
		}
		err = e.store.Delete(ctx, runKey(rr.Run.Name), rev)
		if errors.Is(err, backend.ErrConflict) {
			continue
		}
		if err == nil || isNotFound(err) {
			err = e.deleted(ctx, gone(now))
		}
		return errors.Join(cause, err)
	}
}

// isOpen reports whether an error says nothing of a run, which may be admitted yet.
func isOpen(err error) bool {
	rejected := (*stages.RejectedError)(nil)
	return guard.Transient(err) && !errors.As(err, &rejected)
}

// admit puts a run into the line of its placement and enrols its clusters. It
// may be called again for the same run. Rosters that no longer count are deleted
// here and not when runs end, where the engine may have been fenced.
func (e *Engine) admit(ctx context.Context, rr *runRecord, d *draft) error {
	entered := false
	var verdict stages.Verdict
	rec, err := e.updatePlacement(ctx, rr.Run.Placement, func(rec *placementRecord) ([]stages.Event, error) {
		if rec.hasRun(rr.Run.UID) {
			return nil, errUnchanged
		}
		if err := rec.takes(rr); err != nil {
			return nil, err
		}
		if err := e.stillBegun(ctx, rec, &rr.Run); err != nil {
			return nil, err
		}
		if err := e.secure(ctx, rec, rr, d); err != nil {
			return nil, err
		}
		deleted, err := e.dropDeleted(ctx, rec)
		if err != nil {
			return nil, err
		}
		ended, err := e.clearWay(ctx, rec)
		if err != nil {
			return nil, err
		}
		if verdict, err = rec.lineUp(rr, d.plan); err != nil {
			return nil, err
		}
		events, err := e.enter(ctx, rec, rr, d)
		entered = true
		return slices.Concat(deleted, ended, events), err
	})
	if err != nil {
		return err
	}
	if entered {
		e.dropRosters(ctx, rec)
	}
	return e.supersede(ctx, rr.Run.Name, rr.Run.UID, verdict.Supersedes)
}

// dropDeleted forgets runs that were deleted while somebody else was admitting
// them, and tells so. A run is recorded before it is admitted, so one that has
// not ended and has no record was deleted.
func (e *Engine) dropDeleted(ctx context.Context, rec *placementRecord) ([]stages.Event, error) {
	gone := map[string]bool{}
	var events []stages.Event
	for _, r := range rec.Runs {
		if r.Ended != "" {
			continue
		}
		rr, _, err := e.runAt(ctx, r.Name)
		if isLasting(err) && !isNotFound(err) {
			continue // it cannot be read, but it is there
		}
		if err != nil && !isNotFound(err) {
			return nil, err
		}
		if err != nil || rr.Run.UID != r.UID {
			gone[r.UID] = true
			events = append(events, stages.Event{Type: stages.RunDeleted, Run: r.Name})
		}
	}
	for _, r := range rec.drop(func(r runEntry) bool { return gone[r.UID] }) {
		if err := e.leftBehind(ctx, rec, r, nil); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// clearLine takes runs out of the line that have ended or were deleted and have
// not left it yet, so that nobody waits for them. How one that has the placement
// ended it does not take in: that is for [Engine.clearWay].
func (e *Engine) clearLine(ctx context.Context, rec *placementRecord) error {
	for {
		first := rec.Line.Active
		if first == nil && len(rec.Line.Waiting) > 0 {
			first = &rec.Line.Waiting[0]
		}
		if first == nil {
			return nil
		}
		rr, _, err := e.runAt(ctx, first.Run)
		switch {
		case rec.reserves(first.UID):
			return nil
		case err == nil && rr.Run.UID == first.UID && (!rr.Run.IsEnded() || rec.restarts(&rr.Run)):
			return nil
		case isNotFound(err) || err == nil:
			rec.Line = rec.Line.Leave(first.UID)
		case isLasting(err):
			return nil // whose it is cannot be known: it is waited for
		default:
			return err
		}
	}
}

// lineUp puts a run that is not held into the line of its placement.
func (rec *placementRecord) lineUp(rr *runRecord, p *stages.Plan) (v stages.Verdict, err error) {
	if rr.Run.Hold {
		return v, nil
	}
	entry, admission := stages.Entry{UID: rr.Run.UID, Run: rr.Run.Name, Index: p.Index}, rec.Placement.Admission
	if rec.cleans(rr.Run.Name) || rr.Undoes != "" {
		admission = stages.SupersedeActive
	}
	rec.Line, v, err = rec.Line.Enter(entry, admission)
	return v, err
}

// secure sees to it that what a run is made of is there when the run is
// admitted, and stays: its snapshot, and the contents and the plan that were
// stored for it and that a collection may have taken for garbage.
func (e *Engine) secure(ctx context.Context, rec *placementRecord, rr *runRecord, d *draft) error {
	if !rec.has(d.plan.Index) && rr.Final == "" {
		why := fmt.Errorf("try again: %w", backend.ErrConflict)
		if d.partial {
			why = fmt.Errorf("%w: create it again: %w", errIncomplete, backend.ErrPermanent)
		}
		return fmt.Errorf("run %s: snapshot %d was dropped before the run was recorded, placement %s has %s: %w",
			rr.Run.Name, d.plan.Index, rec.Placement.Name, rec.indexes(), why)
	}
	if rec.Sweeps == rr.Sweeps {
		return nil
	}
	store := e.storeDraft
	if d.partial {
		store = e.storeAgain
	}
	if err := store(ctx, rr, d); err != nil {
		return err
	}
	rr.Sweeps = rec.Sweeps
	return nil
}

// storeAgain writes the plan of a draft, and the contents that it names as they
// were stored, again.
func (e *Engine) storeAgain(ctx context.Context, rr *runRecord, d *draft) error {
	name := rr.Run.Placement
	for _, digest := range d.plan.Revisions {
		set, err := e.contents.loadSet(ctx, name, digest)
		if isNotFound(err) {
			return fmt.Errorf("%w: %w: %v", backend.ErrPermanent, errIncomplete, err)
		}
		if err != nil {
			return err
		}
		if err := e.contents.save(ctx, name, set, func(string) bool { return false }); err != nil {
			return err
		}
	}
	if rr.Decision != nil && rr.Decision.Pages > 0 {
		clusters, err := e.picked(ctx, name, rr.Decision)
		if isNotFound(err) {
			return fmt.Errorf("%w: %w: %v", backend.ErrPermanent, errIncomplete, err)
		}
		if err != nil {
			return err
		}
		if err := e.writePicked(ctx, name, rr.Decision, clusters); err != nil {
			return err
		}
	}
	return e.writePlan(ctx, d.plan, begin(&rr.Run))
}

// enter changes a placement's record for a run that is admitted.
func (e *Engine) enter(ctx context.Context, rec *placementRecord, rr *runRecord, d *draft) ([]stages.Event, error) {
	roster, err := e.readRoster(ctx, rec)
	if err != nil {
		return nil, err
	}
	if roster.enrol(d.plan) {
		rec.setRoster(roster)
	}
	rec.Runs = append(rec.Runs, runEntry{Name: rr.Run.Name, UID: rr.Run.UID, Index: d.plan.Index, Plan: d.plan.Digest, Undoes: rr.Undoes})
	clusters, err := e.pickedBy(ctx, rr, d)
	if err != nil {
		return nil, err
	}
	events, err := e.decide(ctx, rec, rr.Decision, clusters)
	return append(events, stages.Event{
		Type: stages.RunCreated, Run: rr.Run.Name, Index: &d.plan.Index, Digest: d.plan.Digest,
		Count: len(d.plan.Clusters), By: rr.Run.Starter.Name, Message: rec.takesBack(rr),
	}), err
}

// supersede asks the runs named in entries to make way.
func (e *Engine) supersede(ctx context.Context, by, uid string, entries []stages.Entry) error {
	for _, s := range entries {
		c := stages.Command{ID: ownID + "supersede-" + uid, Verb: stages.Supersede, At: e.now(), Message: by}
		if err := e.storeCommand(ctx, s.UID, c); err != nil && !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
	return nil
}
