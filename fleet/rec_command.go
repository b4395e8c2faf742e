package fleet

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// commandRecord is a command on its way to the engine that drives the run.
type commandRecord struct {
	Format  int            `json:"format"`
	Command stages.Command `json:"command"`
}

func newCommandRecord(c stages.Command) commandRecord {
	return commandRecord{Format: recordFormat, Command: c}
}

// undated returns the record without when it was given, which a repeated call
// changes.
func (r commandRecord) undated() commandRecord {
	r.Command.At = time.Time{}
	if d := r.Command.Decision; d != nil {
		copied := *d
		copied.At = time.Time{}
		r.Command.Decision = &copied
	}
	return r
}
