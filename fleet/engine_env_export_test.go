package fleet

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// SkewLease writes the lease of a run as if the clock of its holder were wrong.
func SkewLease(ctx context.Context, s backend.Store, run string, until time.Time) error {
	rec, rev, err := state.New(state.Options{Store: s}).Run(ctx, run)
	if err != nil {
		return err
	}
	rec.Lease.Until = stages.At(until)
	_, err = s.Put(ctx, record.RunKey(run), record.Encode(rec), rev)
	return err
}

// SmuggleCommand stores a command past the checks of the engine.
func SmuggleCommand(ctx context.Context, s backend.Store, run string, c stages.Command) error {
	rec, _, err := state.New(state.Options{Store: s}).Run(ctx, run)
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, record.CommandKey(rec.Run.UID, c.ID), record.Encode(record.Command{Format: record.Format, Command: c}), "")
	return err
}
