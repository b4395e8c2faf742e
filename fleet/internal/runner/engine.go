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

// Options are what a [Runner] is made of. All but Conns, Authority and Windows are required.
type Options struct {
	Store     backend.Store
	State     *state.State
	Caps      *caps.Caps
	Commands  *commands.Inbox
	Admission *admission.Admitter
	Drifts    *driftwatch.Reporter
	Updater   member.Updater
	// Conns are those of the engine's own updater, nil with an Updater of the host's.
	Conns     *member.Conns
	Limiter   *member.Limiter
	Authority approval.Authority
	Windows   state.Windows
	// Examiner works on check objects, nil with an Updater of the host's.
	Examiner *examine.Examiner
	// Queues measures the queues, where it is not nil.
	Queues reconcile.Metrics
	// Metrics are the providers of checks, by the names by which strategies know them.
	Metrics map[string]backend.MetricProvider
	// Name is that of the engine.
	Name                           string
	Lease, Skew, CallTimeout, Poll time.Duration
	Clock                          func() time.Time
	Log                            *slog.Logger
}

// engine is what drivers work with.
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
	lanes       *member.Limiter
	authorities *guard.Guard
	metrics     *guard.Guard
	examiner    *examine.Examiner
	// measuring has room for the requests that providers may have at the same time.
	measuring chan struct{}
	// session extends the leases of the runs that this engine drives.
	session session
	log     *slog.Logger
}

// session says until when the engine's session extends the lease in the record of a key that was saved at a time.
type session interface {
	CoversUntil(key string, saved time.Time) time.Time
}

func newEngine(o Options) *engine {
	return &engine{
		cfg: o, store: o.Store, state: o.State, caps: o.Caps, commands: o.Commands, admission: o.Admission, drifts: o.Drifts, updater: o.Updater, conns: o.Conns, lanes: o.Limiter,
		authorities: guard.New(o.CallTimeout), metrics: guard.New(o.CallTimeout), measuring: make(chan struct{}, measuresAtOnce), examiner: o.Examiner, log: o.Log,
	}
}
