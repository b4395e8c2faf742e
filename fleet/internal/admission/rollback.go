package admission

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// RequestRollback records the request to roll back a run that has ended, and returns the name of
// the run that does so. It refuses the request if the rollback cannot be planned.
func (ad *Admitter) RequestRollback(ctx context.Context, s *state.RunStatus, u stages.RollbackRequest) (name string, err error) {
	_, out, err := ad.state.Advance(ctx, s.Run.Placement, ad.rollback(s, u))
	return out.State.RolledBackBy(s.Run.UID), err
}

// CheckRollback returns the error with which RequestRollback would refuse the rollback of a run
// now. Nothing is written.
func (ad *Admitter) CheckRollback(ctx context.Context, s *state.RunStatus) error {
	name, err := ad.state.RollbackNames.Free(ctx, s.Run.Name, s.Title)
	if err != nil {
		return err
	}
	return ad.state.WithPlacement(ctx, s.Run.Placement, func(rec *record.Placement) error {
		_, err := ad.state.Outcome(ctx, rec, ad.rollback(s, stages.RollbackRequest{Cause: stages.OnCommand, Run: name}))
		return err
	})
}

// rollback is the request to roll back a run that has ended.
func (ad *Admitter) rollback(s *state.RunStatus, u stages.RollbackRequest) *state.Transition {
	run := &s.Run
	return &state.Transition{
		Input: state.Always(lifecycle.RollbackRequested{
			Entry: lifecycle.Entry{UID: run.UID, Run: run.Name, Index: s.Plan.Index}, Result: lifecycle.ResultOf(s.Plan, run), RollbackRequest: u,
		}),
		Plan: func(ctx context.Context, rec *record.Placement) error {
			_, err := ad.planner.DraftRollback(ctx, rec, rec.Base, s)
			return planning.NotRolledBack(run.Name, err)
		},
	}
}

// continueRollback takes one step of the planning of a rollback. Any engine may call it at any
// time, and several may at once: the name and the UID of the run are recorded already, so at most
// one run is created.
func (ad *Admitter) continueRollback(ctx context.Context, rec *record.Placement) error {
	b := rec.Rollback
	rr, _, err := ad.state.Run(ctx, b.Run)
	switch {
	case err == nil && rr.Run.UID == b.UID:
		return ad.admitRollback(ctx, rr)
	case err == nil || state.IsLasting(err) && !state.IsNotFound(err):
		return ad.renameRollback(ctx, rec)
	case !state.IsNotFound(err):
		return err
	}
	s, err := ad.state.Status(ctx, b.OfRun)
	if state.IsNotFound(err) || err == nil && s.Run.UID != b.Of {
		err = fmt.Errorf("run %s was deleted: %w", b.OfRun, backend.ErrPermanent)
	}
	var d *planning.Draft
	if err == nil {
		d, err = ad.planner.DraftRollback(ctx, rec, rec.Base, &s)
	}
	if state.IsLasting(err) {
		return ad.refuseRollback(ctx, rec, err)
	}
	if err != nil {
		return err
	}
	return ad.recordRollback(ctx, rec, &s, d)
}

// recordRollback stores the run of a rollback. If another engine stored its record first, both
// records are the same.
func (ad *Admitter) recordRollback(ctx context.Context, rec *record.Placement, of *state.RunStatus, d *planning.Draft) error {
	b := rec.Rollback
	rr := &record.Run{
		Run: step.NewRun(d.Plan, b.Run, b.UID, b.RollbackRequest.By, false, ad.state.Now()), Owner: of.Owner, Title: of.Title, Of: rec.UID,
		RollbackOf: b.Of, Apply: of.Apply, AllowCoOwnership: of.AllowCoOwnership, GCGeneration: d.Sweeps,
	}
	if err := ad.storeDraft(ctx, rr, d); err != nil {
		return err
	}
	if err := ad.putRun(ctx, rr); err != nil {
		return err
	}
	err := ad.Admit(ctx, rr, d)
	if err != nil && !guard.Transient(err) {
		err = ad.Withdraw(ctx, rr, err)
	}
	return err // if the run was not admitted, its driver admits it
}

// admitRollback admits the run of a rollback if another engine has stored it without admitting it.
func (ad *Admitter) admitRollback(ctx context.Context, rr *record.Run) error {
	p, err := ad.state.Plans.Read(ctx, rr.Run.Plan)
	if err != nil {
		return err
	}
	return ad.Admit(ctx, rr, &planning.Draft{Plan: p, Partial: true})
}

// renameRollback gives the run of a rollback an unused name.
func (ad *Admitter) renameRollback(ctx context.Context, rec *record.Placement) error {
	uid := rec.Rollback.UID
	title := ""
	of, _, err := ad.state.Run(ctx, rec.Rollback.OfRun)
	switch {
	case err == nil:
		title = of.Title
	case !state.IsNotFound(err): // under any name, the rollback soon fails with this error
		return err
	}
	free, err := ad.state.RollbackNames.Free(ctx, rec.Rollback.OfRun, title)
	if err != nil {
		return err
	}
	_, _, err = ad.state.Advance(ctx, rec.Placement.Name, &state.Transition{Input: state.Always(lifecycle.RollbackRenamed{UID: uid, From: rec.Rollback.Run, To: free})})
	return err
}

// refuseRollback records why a run is not rolled back, and releases the placement.
func (ad *Admitter) refuseRollback(ctx context.Context, rec *record.Placement, cause error) error {
	in := lifecycle.RollbackAbandoned{UID: rec.Rollback.UID, Reason: guard.ReasonOf(cause)}
	_, _, err := ad.state.Advance(ctx, rec.Placement.Name, &state.Transition{Input: state.Always(in)})
	return err
}
