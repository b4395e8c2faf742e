// Package driftwatch compares clusters with what they should have, records what differs, and between runs puts
// it back where the strategy of the placement says so. [Reporter] compares when it is asked; [Reconciler]
// watches the clusters of the placements that ask for it; [Gate] answers the approval gates that pass only
// while nothing has drifted.
package driftwatch

import (
	"log/slog"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// Options are what a [Reporter] is made of. All but Applier are required.
type Options struct {
	Store   backend.Store
	State   *state.State
	Planner *planning.Planner
	// Applier compares clusters; nil where an Updater of the host's does what runs do.
	Applier *member.Applier
	Limiter *member.Limiter
	// Name is that of the engine.
	Name                           string
	Lease, Skew, CallTimeout, Poll time.Duration
	// Reported gets the status of objects of placements that ask for it; nil for none.
	Reported func(apply.StatusReport)
	Log      *slog.Logger
}

// Reporter compares clusters. Its methods may be called concurrently.
type Reporter struct {
	cfg     Options
	store   backend.Store
	state   *state.State
	planner *planning.Planner
	applier *member.Applier
	limiter *member.Limiter
	checked lastChecked
	log     *slog.Logger
}

// New returns a reporter.
func New(o Options) *Reporter {
	return &Reporter{cfg: o, store: o.Store, state: o.State, planner: o.Planner, applier: o.Applier, limiter: o.Limiter, log: o.Log}
}
