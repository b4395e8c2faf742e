package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// queue asks the placement whether it is the run's turn. It sets in.Blocked to the run that is
// ahead, and adds a Supersede command if another run has superseded this run.
func (d *driver) queue(ctx context.Context) error {
	run, first := &d.rec.Run, d.first
	d.in.Blocked, d.first = "", nil
	starting := slices.ContainsFunc(d.in.Commands, func(c stages.Command) bool {
		return c.Verb == stages.Start || c.Verb == stages.Retry && run.State != stages.NotStarted
	})
	switch {
	case run.Final(d.plan):
		return nil
	case run.State == stages.Failed && starting:
		return d.queueAgain(ctx)
	case run.Started != 0 || run.Hold && !starting || run.State == stages.Stopped && !starting:
		return nil
	}
	entry := lifecycle.Entry{UID: run.UID, Run: run.Name, Index: d.plan.Index}
	// This is safe if the record is old. A run keeps its place until it has ended. If the run was
	// ended or deleted since, the save of the turn fails, because it is conditional on the run's
	// record that was written with the placement's.
	if first != nil && first.HasTurn(entry, first.Placement.Admission) {
		return nil
	}
	turn, err := d.askTurn(ctx, lifecycle.TurnAsked{Entry: entry, Epoch: d.epoch})
	if err != nil {
		return err
	}
	if by := turn.SupersededBy; by != "" {
		d.in.Commands = append(d.in.Commands, stages.Command{ID: record.OwnID + "superseded", Verb: stages.Supersede, Message: by})
	}
	return nil
}

// queueAgain asks whether a failed run that is retried may become the active run of the placement.
func (d *driver) queueAgain(ctx context.Context) error {
	entry := lifecycle.Entry{UID: d.uid, Run: d.name, Index: d.plan.Index}
	_, err := d.askTurn(ctx, lifecycle.RetryAsked{Entry: entry, Attempt: d.rec.Run.Attempt + 1, Epoch: d.epoch})
	return err
}

// askTurn asks the placement for the run's turn.
func (d *driver) askTurn(ctx context.Context, in lifecycle.Input) (lifecycle.Turn, error) {
	rec, out, err := d.e.state.Advance(ctx, d.placement, &state.Transition{Input: state.Always(in)})
	if err != nil {
		return out.Turn, err
	}
	if out.Turn.Retake {
		return out.Turn, fmt.Errorf("run %s: its turn has come at epoch %d, and it was taken at %d: %w", d.name, rec.Epoch, d.epoch, errRetake)
	}
	d.in.Blocked = cmp.Or(out.Turn.WaitsFor, out.Turn.SupersededBy)
	return out.Turn, nil
}
