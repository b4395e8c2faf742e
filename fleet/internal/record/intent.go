package record

import (
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages/step"
)

// Intent announces the creation of a run. It is written before the plan, under the run's UID, so
// that a collection finds the remains of a crash: a plan without a run, or the pages of a deleted
// run.
type Intent struct {
	Format int `json:"format"`
	// Run is the run's name, Plan the digest of its plan.
	Run  string `json:"run"`
	Plan string `json:"plan"`
	// Lost reports whether a collection found no run for the intent. Later collections delete the
	// run's stored data, and this record when they find none, because a paused creator or driver of
	// the run may still write. If an engine pauses for even longer between two writes of one batch
	// and then dies, its page is never deleted. If an engine dies while it creates a run whose
	// placement another engine has just deleted, the intent and the plan stay until the name is
	// declared again.
	Lost bool `json:"lost,omitempty"`
}

// WriteIntent returns the write of the intent for a run.
func WriteIntent(r *step.Run) backend.Write {
	return backend.Write{Key: IntentPrefix(r.Placement) + r.UID, Value: Encode(Intent{Format: Format, Run: r.Name, Plan: r.Plan})}
}
