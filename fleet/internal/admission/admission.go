package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// Withdraw deletes a run that was not admitted, and returns the cause. If the run was admitted
// after all, by an engine that drives it or by a write that was reported as failed, Withdraw leaves
// the run and returns nil. It also does so if an engine has taken the run since and may admit it,
// and the cause only means that the outcome of a write is unknown. The delete is conditional on the
// revision that was read.
func (ad *Admitter) Withdraw(ctx context.Context, rr *record.Run, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ad.cfg.CallTimeout)
	defer cancel()
	for {
		now, rev, missing := ad.state.Run(ctx, rr.Run.Name)
		rec, _, err := ad.state.Placement(ctx, rr.Run.Placement)
		switch {
		case state.IsNotFound(err):
			return errors.Join(cause, ad.Abandoned(ctx, rr))
		case err != nil:
			return errors.Join(cause, err)
		case rec.HasRun(rr.Run.UID):
			return nil
		case missing != nil || now.Run.UID != rr.Run.UID:
			return cause
		case now.Lease.Epoch != rr.Lease.Epoch && isOpen(cause):
			return nil
		}
		err = ad.store.Delete(ctx, record.RunKey(rr.Run.Name), rev)
		if errors.Is(err, backend.ErrConflict) {
			continue
		}
		if err == nil || state.IsNotFound(err) {
			err = ad.deleted(ctx, gone(now))
		}
		return errors.Join(cause, err)
	}
}

// isOpen reports whether the admission of the run is still undecided after this error.
func isOpen(err error) bool {
	rejected := (*stages.RejectedError)(nil)
	return guard.Transient(err) && !errors.As(err, &rejected)
}

// Admit adds a run whose record is stored to its placement, and sends a Supersede command to the
// runs that it supersedes. It is idempotent.
func (ad *Admitter) Admit(ctx context.Context, rr *record.Run, d *planning.Draft) error {
	run := &rr.Run
	admitted := lifecycle.RunAdmitted{
		Entry: d.Entry(run), Plan: d.Plan.Digest, Clusters: state.Updated(d.Plan), Count: len(d.Plan.Clusters), New: state.NewClusters(d.Plan),
		Of: rr.Of, By: run.Starter.Name, Hold: run.Hold, RollbackOf: rr.RollbackOf, Recovered: d.Partial,
		Evicts: d.Plan.Strategy.Removal.Only, Version: rr.Version,
	}
	if rr.Selection != nil && (rr.Selection.Pages > 0 || rr.Selection.Clusters == len(d.Picked(rr))) {
		// A selection with unknown clusters is not recorded, because the next selection could not
		// find out which clusters are placed already.
		admitted.Selection = &lifecycle.SelectionChanged{
			PolicyDigest: rr.Selection.PolicyDigest, Digest: rr.Selection.Digest, Clusters: rr.Selection.Clusters, Pages: record.SelectionPages(rr.Selection.Clusters),
		}
	}
	_, _, err := ad.state.Advance(ctx, run.Placement, &state.Transition{
		Input: func(*record.Placement) (lifecycle.Input, error) {
			admitted.GCGeneration = rr.GCGeneration
			return admitted, nil
		},
		Store: func(ctx context.Context, rec *record.Placement) error { return ad.storeOnceMore(ctx, rec, rr, d) },
		Picked: func(ctx context.Context) ([]string, error) {
			if d.Partial && rr.Selection.Pages > 0 {
				return ad.state.Selections.Read(ctx, run.Placement, rr.Selection)
			}
			return d.Picked(rr), nil
		},
	})
	return err
}

// storeOnceMore stores the contents and the plan of a run again before it is admitted, because a
// collection may have deleted them as garbage.
func (ad *Admitter) storeOnceMore(ctx context.Context, rec *record.Placement, rr *record.Run, d *planning.Draft) error {
	store := ad.storeDraft
	if d.Partial {
		store = ad.storeAgain
	}
	if err := store(ctx, rr, d); err != nil {
		return err
	}
	rr.GCGeneration = rec.GCGeneration
	return nil
}

// storeAgain stores the plan of a draft again. It reads the contents that the plan names from the
// store and stores them again too.
func (ad *Admitter) storeAgain(ctx context.Context, rr *record.Run, d *planning.Draft) error {
	name := rr.Run.Placement
	for _, digest := range d.Plan.Revisions {
		set, err := ad.contents.LoadSet(ctx, name, digest)
		if state.IsNotFound(err) {
			return fmt.Errorf("%w: %w: %v", backend.ErrPermanent, state.ErrIncomplete, err)
		}
		if err != nil {
			return err
		}
		if err := ad.contents.Save(ctx, name, set, func(string) bool { return false }); err != nil {
			return err
		}
	}
	if rr.Selection != nil && rr.Selection.Pages > 0 {
		clusters, err := ad.state.Selections.Read(ctx, name, rr.Selection)
		if state.IsNotFound(err) {
			return fmt.Errorf("%w: %w: %v", backend.ErrPermanent, state.ErrIncomplete, err)
		}
		if err != nil {
			return err
		}
		if err := ad.state.Selections.Write(ctx, name, rr.Selection, clusters); err != nil {
			return err
		}
	}
	return ad.state.Plans.Write(ctx, d.Plan, record.WriteIntent(&rr.Run))
}
