// Package admission brings runs into being: it records a draft and the run of it, and has the placement take
// the run into its queue. The runs are those of hosts, those that roll another one back, and those that clean
// the clusters of a placement that is being deleted; what a placement has under way beside its runs, the
// planning of a rollback and its own deletion, it takes on step by step.
package admission

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// Options are what an [Admitter] is made of. All are required.
type Options struct {
	Store    backend.Store
	State    *state.State
	Caps     *caps.Caps
	Contents *content.Store
	Planner  *planning.Planner
	// Forget drops what is known of the drift and the failures of a placement that is gone.
	Forget      func(ctx context.Context, placement string)
	CallTimeout time.Duration
}

// Admitter records runs. Its methods may be called concurrently, and by several engines at once.
type Admitter struct {
	cfg      Options
	store    backend.Store
	state    *state.State
	caps     *caps.Caps
	contents *content.Store
	planner  *planning.Planner
	forget   func(ctx context.Context, placement string)
}

// New returns an admitter.
func New(o Options) *Admitter {
	return &Admitter{cfg: o, store: o.Store, state: o.State, caps: o.Caps, contents: o.Contents, planner: o.Planner, forget: o.Forget}
}
