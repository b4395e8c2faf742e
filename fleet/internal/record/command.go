package record

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Command is a command on its way to the engine that drives the run.
type Command struct {
	Format  int            `json:"format"`
	Command stages.Command `json:"command"`
}

// OwnID begins the IDs of the engine's own commands. No ID that is given from
// outside does.
const OwnID = "_"

// NewCommand returns the record of a command.
func NewCommand(c stages.Command) Command {
	return Command{Format: Format, Command: c}
}

// Undated returns the record without when it was given, which a repeated call
// changes.
func (r Command) Undated() Command {
	r.Command.At = time.Time{}
	if d := r.Command.Decision; d != nil {
		copied := *d
		copied.At = time.Time{}
		r.Command.Decision = &copied
	}
	return r
}

// PutCommand stores a command for a run; that its ID is stored already is a conflict.
func PutCommand(ctx context.Context, store backend.Store, run string, c stages.Command) error {
	_, err := store.Put(ctx, CommandKey(run, c.ID), Encode(NewCommand(c)), "")
	return err
}
