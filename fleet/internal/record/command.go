package record

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Command is a command for the engine that drives the run.
type Command struct {
	Format  int            `json:"format"`
	Command stages.Command `json:"command"`
}

// OwnID is the prefix of the IDs of the engine's own commands. No ID from outside has it.
const OwnID = "_"

// NewCommand returns the record of a command.
func NewCommand(c stages.Command) Command {
	return Command{Format: Format, Command: c}
}

// Undated returns the record without its times, because a repeated call changes them.
func (r Command) Undated() Command {
	r.Command.At = time.Time{}
	if d := r.Command.Decision; d != nil {
		copied := *d
		copied.At = time.Time{}
		r.Command.Decision = &copied
	}
	return r
}

// PutCommand stores a command for a run. The error is a conflict if its ID is stored already.
func PutCommand(ctx context.Context, store backend.Store, run string, c stages.Command) error {
	_, err := store.Put(ctx, CommandKey(run, c.ID), Encode(NewCommand(c)), "")
	return err
}
