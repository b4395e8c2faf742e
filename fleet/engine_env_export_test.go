package fleet

import (
	"context"
	"errors"
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

// LateCommand sends a command. If the run has ended, it stores the command as a host does that read
// the run before.
func LateCommand(ctx context.Context, e *Engine, s backend.Store, run string, c stages.Command) error {
	err := e.Run(run).Command(ctx, c)
	if _, ended := errors.AsType[*stages.RefusedError](err); !ended {
		return err
	}
	if c.ID == "" {
		c.ID = record.NewUID()
	}
	c.At = e.state.Now()
	return SmuggleCommand(ctx, s, run, c)
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
