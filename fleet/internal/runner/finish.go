package runner

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// finish records the result of a run with its placement, which dequeues the run. It then leaves the
// cap and deletes unreferenced pages. It releases the lease last, because until then another engine
// repeats failed steps. It is idempotent.
func (d *driver) finish(ctx context.Context) error {
	for _, w := range d.workers {
		w.cancel()
	}
	e, run := d.e, &d.rec.Run
	rec, out, err := e.state.Decide(ctx, run.Placement, &state.Transition{Input: state.Always(lifecycle.RunEnded{
		Entry: lifecycle.Entry{UID: d.uid, Run: d.name, Index: d.plan.Index}, Epoch: d.epoch, Result: *e.state.ResultOf(d.rec, d.plan),
	})})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return err // ErrNotFound: the placement was deleted, so there is nothing to record
	}
	if d.share.name != "" {
		if err := e.caps.Leave(ctx, d.share.name, d.uid, d.epoch); err != nil {
			return err
		}
	}
	if err := d.pages.Sweep(ctx, d.rec.Lease.Epoch, d.rec.InFlight.Names()); err != nil {
		return err
	}
	if err := d.release(ctx); err != nil {
		return err
	}
	if rec != nil {
		if err := e.state.CarryOut(ctx, rec, out.After); err != nil {
			return err
		}
	}
	return errDone
}

// release saves the ended run without a holder.
func (d *driver) release(ctx context.Context) error {
	next := *d.rec
	next.Lease.Holder, next.Lease.Until = "", 0
	next.Seq++
	rev, err := d.e.store.Put(ctx, record.RunKey(d.name), next.Encode(), d.rev)
	if err != nil {
		return err
	}
	d.rec, d.rev = &next, rev
	d.wrote[next.Seq%int64(len(d.wrote))] = rev
	return nil
}
