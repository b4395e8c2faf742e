package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/lifecycle"
)

// withdraw deletes a run that was not admitted, and returns the cause. It returns nil and leaves the run
// where it was admitted after all: by an engine that drives it, or by a write that was reported as failed. It
// also leaves a run that an engine has taken since and may admit, where the cause is only that the outcome of
// a write is unknown; the delete is conditional on the revision that was read.
func (e *Engine) withdraw(ctx context.Context, rr *record.Run, cause error) error {
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
		case rec.HasRun(rr.Run.UID):
			return nil
		case missing != nil || now.Run.UID != rr.Run.UID:
			return cause
		case now.Lease.Epoch != rr.Lease.Epoch && isOpen(cause):
			return nil
		}
		err = e.store.Delete(ctx, record.RunKey(rr.Run.Name), rev)
		if errors.Is(err, backend.ErrConflict) {
			continue
		}
		if err == nil || isNotFound(err) {
			err = e.deleted(ctx, gone(now))
		}
		return errors.Join(cause, err)
	}
}

// isOpen reports whether an error leaves it undecided whether a run is admitted.
func isOpen(err error) bool {
	rejected := (*lifecycle.RejectedError)(nil)
	return guard.Transient(err) && !errors.As(err, &rejected)
}

// admit adds a run whose record is stored to its placement, and sends a Supersede command to the runs that it
// supersedes. It is idempotent.
func (e *Engine) admit(ctx context.Context, rr *record.Run, d *draft) error {
	run := &rr.Run
	admitted := lifecycle.RunAdmitted{
		Entry: d.entry(run), Plan: d.plan.Digest, Clusters: updated(d.plan), Count: len(d.plan.Clusters),
		Of: rr.Of, By: run.Starter.Name, Hold: run.Hold, Undoes: rr.Undoes, Recovered: d.partial,
	}
	if rr.Decision != nil && (rr.Decision.Pages > 0 || rr.Decision.Clusters == len(d.picked(rr))) {
		// A decision whose clusters are not known is not recorded: the next one could not say what is placed already.
		admitted.Decision = &lifecycle.DecisionTaken{
			PolicyDigest: rr.Decision.PolicyDigest, Digest: rr.Decision.Digest, Clusters: rr.Decision.Clusters, Pages: record.DecisionPages(rr.Decision.Clusters),
		}
	}
	_, _, err := e.advance(ctx, run.Placement, &transition{
		input: func(*record.Placement) (lifecycle.Input, error) {
			admitted.GCGeneration = rr.GCGeneration
			return admitted, nil
		},
		store: func(ctx context.Context, rec *record.Placement) error { return e.storeOnceMore(ctx, rec, rr, d) },
		picked: func(ctx context.Context) ([]string, error) {
			if d.partial && rr.Decision.Pages > 0 {
				return e.picked(ctx, run.Placement, rr.Decision)
			}
			return d.picked(rr), nil
		},
	})
	return err
}

// entry is the run of a draft as the queue has it.
func (d *draft) entry(run *stages.Run) lifecycle.Entry {
	return lifecycle.Entry{UID: run.UID, Run: run.Name, Index: d.plan.Index}
}

// picked are the clusters of the decision that a draft was made of, as far as the draft has them.
func (d *draft) picked(rr *record.Run) []string {
	if d.partial && rr.Decision.Pages == 0 {
		return updated(d.plan)
	}
	return d.decision.Clusters
}

// storeOnceMore stores the contents and the plan of a run that is about to be admitted, which a
// collection may have taken for garbage.
func (e *Engine) storeOnceMore(ctx context.Context, rec *record.Placement, rr *record.Run, d *draft) error {
	store := e.storeDraft
	if d.partial {
		store = e.storeAgain
	}
	if err := store(ctx, rr, d); err != nil {
		return err
	}
	rr.GCGeneration = rec.GCGeneration
	return nil
}

// storeAgain writes the plan of a draft, and the contents that it names as they
// were stored, again.
func (e *Engine) storeAgain(ctx context.Context, rr *record.Run, d *draft) error {
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
	return e.writePlan(ctx, d.plan, record.WriteIntent(&rr.Run))
}
