// Package admission creates runs: it records a draft and its run, and makes the placement admit the
// run into its queue. It creates the runs of hosts, rollbacks, and the runs that clean the clusters
// of a deleted placement. It also carries out, step by step, the work on a placement that belongs
// to no run: the planning of a rollback and the deletion.
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

// Options configure an [Admitter]. All fields are required.
type Options struct {
	Store    backend.Store
	State    *state.State
	Caps     *caps.Caps
	Contents *content.Store
	Planner  *planning.Planner
	// Forget drops the cached drift and failures of a deleted placement.
	Forget      func(ctx context.Context, placement string)
	CallTimeout time.Duration
}

// Admitter records runs. Its methods may be called concurrently, also by several engines.
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
