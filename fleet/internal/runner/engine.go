package runner

import (
	"log/slog"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/admission"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/examine"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// Options configure a [Runner]. All fields except Conns, Authority, Windows, Examiner and Queues
// are required.
type Options struct {
	Store     backend.Store
	State     *state.State
	Caps      *caps.Caps
	Commands  *commands.Inbox
	Admission *admission.Admitter
	Drifts    *driftwatch.Reporter
	Updater   member.Updater
	// Conns are the connections of the engine's own updater, nil if the host provides the Updater.
	Conns     *member.Conns
	Limiter   *member.Limiter
	Authority approval.Authority
	Windows   state.Windows
	// Examiner works on check objects; nil if the host provides the Updater.
	Examiner *examine.Examiner
	// Queues measures the queues if it is not nil.
	Queues reconcile.Metrics
	// Metrics are the metric providers of checks, by the names that strategies use.
	Metrics map[string]backend.MetricProvider
	// Name is the name of the engine.
	Name                           string
	Lease, Skew, CallTimeout, Poll time.Duration
	Clock                          func() time.Time
	Log                            *slog.Logger
}

// engine holds the dependencies that all drivers share.
type engine struct {
	cfg         Options
	store       backend.Store
	state       *state.State
	caps        *caps.Caps
	commands    *commands.Inbox
	admission   *admission.Admitter
	drifts      *driftwatch.Reporter
	updater     member.Updater
	conns       *member.Conns
	limiter     *member.Limiter
	authorities *guard.Guard
	metrics     *guard.Guard
	examiner    *examine.Examiner
	// measuring limits the number of concurrent requests to metric providers.
	measuring chan struct{}
	// session extends the leases of the runs that this engine drives.
	session session
	log     *slog.Logger
}

// session returns the time until which the engine's session extends the lease in the record with
// this key that was saved at a given time.
type session interface {
	CoversUntil(key string, saved time.Time) time.Time
}

func newEngine(o Options) *engine {
	return &engine{
		cfg: o, store: o.Store, state: o.State, caps: o.Caps, commands: o.Commands, admission: o.Admission, drifts: o.Drifts, updater: o.Updater, conns: o.Conns, limiter: o.Limiter,
		authorities: guard.New(o.CallTimeout), metrics: guard.New(o.CallTimeout), measuring: make(chan struct{}, measuresAtOnce), examiner: o.Examiner, log: o.Log,
	}
}
