package runner

import (
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// tenure identifies the period in which an engine drives a run. It has the facts that do not
// change in that time.
type tenure struct {
	// name is the name of the run, uid its UID.
	name, uid string
	placement string
	// epoch is the epoch of the lease.
	epoch int64
	plan  *stages.Plan
	// wasEnded reports whether the run had ended before it was taken.
	wasEnded bool
	// over tells callers that wait for the run's end that this engine no longer drives it.
	over func()
}

func newTenure(rec *record.Run, plan *stages.Plan, over func()) tenure {
	return tenure{
		name: rec.Run.Name, uid: rec.Run.UID, placement: rec.Run.Placement, epoch: rec.Lease.Epoch, plan: plan,
		wasEnded: rec.Run.IsEnded(), over: over,
	}
}
