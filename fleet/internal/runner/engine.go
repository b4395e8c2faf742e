package runner

import (
	"context"
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
	Options
	authorities, metrics *guard.Guard
	// measuring limits the number of concurrent requests to metric providers.
	measuring chan struct{}
	// session extends the leases of the runs that this engine drives.
	session session
}

// session returns the time until which the engine's session extends the lease in the record with
// this key that was saved at a given time.
type session interface {
	CoversUntil(key string, saved time.Time) time.Time
}

func newEngine(o Options) *engine {
	return &engine{
		Options: o, authorities: guard.New(o.CallTimeout), metrics: guard.New(o.CallTimeout), measuring: make(chan struct{}, measuresAtOnce),
	}
}

// holdsLease reports whether the store still names the epoch of a tenure for its run.
func (e *engine) holdsLease(ctx context.Context, t *tenure) (bool, error) {
	rec, _, err := e.State.Run(ctx, t.name)
	if state.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return rec.Run.UID == t.uid && rec.Lease.Epoch == t.epoch, nil
}
