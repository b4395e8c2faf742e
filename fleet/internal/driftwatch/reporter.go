// Package driftwatch compares clusters with their desired state, records the differences, and
// repairs drift between runs if the strategy of the placement says so. [Reporter] compares on
// request; [Reconciler] watches the clusters of the placements that ask for it; [Gate] answers the
// approval gates that pass only while nothing has drifted.
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

// Options configure a [Reporter]. All fields except Applier and Reported are required.
type Options struct {
	Store   backend.Store
	State   *state.State
	Planner *planning.Planner
	// Applier compares clusters; nil if the host's own Updater carries out runs.
	Applier *member.Applier
	Limiter *member.Limiter
	// Name is the name of the engine.
	Name                           string
	Lease, Skew, CallTimeout, Poll time.Duration
	// Reported receives the status of objects of placements that ask for it; it may be nil.
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

// New returns a reporter with the given options.
func New(o Options) *Reporter {
	return &Reporter{cfg: o, store: o.Store, state: o.State, planner: o.Planner, applier: o.Applier, limiter: o.Limiter, log: o.Log}
}
