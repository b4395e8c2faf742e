package admission

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages/step"
)

// CatchUp plans and records a catch-up run for the clusters that another run missed.
func (ad *Admitter) CatchUp(ctx context.Context, spec planning.Request, of *state.RunStatus) (state.RunStatus, error) {
	if err := ad.state.NameFree(ctx, spec.Name); err != nil {
		return state.RunStatus{}, err
	}
	var d *planning.Draft
	var rec *record.Placement
	err := ad.state.WithPlacement(ctx, spec.Placement, func(now *record.Placement) (err error) {
		rec = now
		d, err = ad.planner.DraftCatchUp(ctx, now, of)
		return err
	})
	if err != nil {
		return state.RunStatus{}, fmt.Errorf("run %s, catching up with run %s: %w", spec.Name, of.Run.Name, err)
	}
	return ad.record(ctx, rec, spec, d)
}

// CreateRun plans a run and records it.
func (ad *Admitter) CreateRun(ctx context.Context, spec planning.Request) (state.RunStatus, error) {
	if err := ad.state.NameFree(ctx, spec.Name); err != nil {
		return state.RunStatus{}, err
	}
	if name := spec.Strategy.Cap; name != "" {
		if _, _, err := ad.caps.Get(ctx, name); err != nil {
			return state.RunStatus{}, fmt.Errorf("run %s: %w", spec.Name, err)
		}
	}
	d, rec, err := ad.planner.Plan(ctx, spec)
	if err != nil {
		return state.RunStatus{}, fmt.Errorf("run %s: %w", spec.Name, err)
	}
	return ad.record(ctx, rec, spec, d)
}

// record stores a draft and its run. It checks for reasons to refuse the run before it writes
// anything.
func (ad *Admitter) record(ctx context.Context, rec *record.Placement, spec planning.Request, d *planning.Draft) (state.RunStatus, error) {
	if spec.Plan != "" && spec.Plan != d.Plan.Digest {
		return state.RunStatus{}, errdef.PlanChanged(spec.Name, spec.Plan, d.Plan.Digest)
	}
	if err := rec.CheckVersion(spec.Version); err != nil {
		return state.RunStatus{}, fmt.Errorf("run %s: %w", spec.Name, state.HostError(err))
	}
	run := step.NewRun(d.Plan, spec.Name, record.NewUID(), spec.Starter, spec.Hold, ad.state.Now())
	rr := &record.Run{
		Run: run, Owner: spec.Owner, Title: spec.Title, Of: rec.UID, Whole: d.Whole, Selection: d.Selected(), Apply: rec.Placement.ApplyStrategy,
		AllowCoOwnership: rec.Placement.AllowCoOwnership, GCGeneration: d.Sweeps, Version: spec.Version,
	}
	asks := lifecycle.RunRequested{Entry: d.Entry(&run), Hold: spec.Hold}
	if _, err := ad.state.Outcome(ctx, rec, &state.Transition{Input: state.Always(asks)}); err != nil {
		return state.RunStatus{}, err
	}
	if err := ad.planner.Take(ctx, rec, d); err != nil {
		return state.RunStatus{}, fmt.Errorf("run %s: %w", spec.Name, ad.Sweep(ctx, spec.Placement, err))
	}
	if err := ad.storeDraft(ctx, rr, d); err != nil {
		return state.RunStatus{}, err
	}
	defer ad.state.Admitting.Begin(run.Name)()
	if err := ad.putRun(ctx, rr); err != nil {
		return state.RunStatus{}, err
	}
	ad.planner.Offer(d)
	if err := ad.Admit(ctx, rr, d); err != nil {
		if err := ad.Withdraw(ctx, rr, err); err != nil {
			return state.RunStatus{}, err
		}
	}
	return state.Recorded(rr, d.Plan), nil
}

// putRun creates the record of a run. If the write fails, it reads the record to find out whether
// it exists nevertheless.
func (ad *Admitter) putRun(ctx context.Context, rr *record.Run) error {
	_, err := ad.store.Put(ctx, record.RunKey(rr.Run.Name), record.Encode(rr), "")
	if err == nil {
		return nil
	}
	if now, _, rerr := ad.state.Run(ctx, rr.Run.Name); rerr == nil && now.Run.UID == rr.Run.UID {
		return nil
	}
	return ad.state.NameTaken(rr.Run.Name, err)
}

// storeDraft writes the plan and the contents for the clusters.
func (ad *Admitter) storeDraft(ctx context.Context, rr *record.Run, d *planning.Draft) error {
	if err := d.Variants.Save(ctx, ad.contents, rr.Run.Placement); err != nil {
		return err
	}
	if rr.Selection != nil && rr.Selection.Pages > 0 {
		if err := ad.state.Selections.Write(ctx, rr.Run.Placement, rr.Selection, d.Selection.Clusters); err != nil {
			return err
		}
	}
	return ad.state.Plans.Write(ctx, d.Plan, record.WriteIntent(&rr.Run))
}
