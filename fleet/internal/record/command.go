package record

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// Command is a command on its way to the engine that drives the run.
type Command struct {
	Format  int            `json:"format"`
	Command stages.Command `json:"command"`
}

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
