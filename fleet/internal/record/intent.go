package record

import (
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// Intent is written before the plan of a run, under the run's UID, so that
// what a crash leaves of it is found: a plan without a run, pages of a run that is
// gone.
type Intent struct {
	Format int `json:"format"`
	// Run is the run's name, Plan the digest of its plan.
	Run  string `json:"run"`
	Plan string `json:"plan"`
	// Lost reports whether a collection found no run of it. The next ones delete what
	// there is, and this record when there was nothing: whoever is just creating
	// the run, or has driven it and was held up, may write something meanwhile. Who
	// is held up for longer, between two writes of the same batch, and dies then,
	// leaves a page for good.
	Lost bool `json:"lost,omitempty"`
}

// WriteIntent is the write that announces what is stored for a run.
func WriteIntent(r *stages.Run) backend.Write {
	return backend.Write{Key: IntentPrefix(r.Placement) + r.UID, Value: Encode(Intent{Format: Format, Run: r.Name, Plan: r.Plan})}
}
