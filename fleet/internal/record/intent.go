package record

import (
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages/step"
)

// Intent announces the creation of a run. It is written before the plan, under the run's UID, so that a
// collection finds what a crash leaves: a plan without a run, or pages of a run that is gone.
type Intent struct {
	Format int `json:"format"`
	// Run is the run's name, Plan the digest of its plan.
	Run  string `json:"run"`
	Plan string `json:"plan"`
	// Lost reports whether a collection found no run of it. Later collections delete what is stored of the
	// run, and this record once they find nothing, since a paused creator or driver of the run may still
	// write. An engine that is paused for longer, between two writes of the same batch, and dies then leaves
	// a page for good.
	Lost bool `json:"lost,omitempty"`
}

// WriteIntent is the write that announces what is stored for a run.
func WriteIntent(r *step.Run) backend.Write {
	return backend.Write{Key: IntentPrefix(r.Placement) + r.UID, Value: Encode(Intent{Format: Format, Run: r.Name, Plan: r.Plan})}
}
