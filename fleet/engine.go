package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/admission"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/examine"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/runner"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/lru"
)

// Engine freezes, plans and rolls out placements. [Engine.Placement] and [Engine.Run] return
// handles with the verbs of one placement and one run; the engine itself lists, creates and drives
// them. All methods may be called concurrently, and do not need [Engine.Start] to run in this
// process: they read and write the store.
type Engine struct {
	cfg      Config
	store    backend.Store
	contents *content.Store
	state    *state.State
	caps     *caps.Caps
	commands *commands.Inbox
	planner  *planning.Planner
	admitter *admission.Admitter
	drifts   *driftwatch.Reporter
	failing  failures
	// forecasts are of the runs that were forecast last.
	forecasts *lru.Cache[forecastKey, *forecastMemory]
	updates   updates
}

// updates are how an engine updates clusters.
type updates struct {
	limiter *member.Limiter
	updater member.Updater
	// applier is the updater unless the host has its own, and conns are its connections.
	applier *member.Applier
	conns   *member.Conns
}

// New returns an engine. It has no effect until a method is called; [Engine.Start] drives runs.
func New(cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.defaults()
	e := &Engine{cfg: cfg, store: guard.Store(cfg.Store, cfg.CallTimeout), forecasts: lru.New[forecastKey, *forecastMemory](forecastsKept, nil)}
	e.contents = content.New(e.store)
	e.state = state.New(state.Options{
		Store: e.store, Contents: e.contents, Inventory: cfg.Inventory, Windows: cfg.Windows, RollbackName: cfg.RollbackName,
		Name: cfg.Name, Lease: cfg.Lease, CallTimeout: cfg.CallTimeout, Poll: cfg.Poll, Clock: cfg.Clock, Log: cfg.Log,
	})
	e.caps = caps.New(e.store, e.state)
	e.commands = commands.New(e.store, e.state, cfg.Log)
	calls := guard.New(cfg.CallTimeout) // calls of an updater, for updates and for preflights
	u := &e.updates
	u.limiter = member.NewLimiter(cfg.MaxUpdates)
	if cfg.Updater != nil {
		u.updater = member.Guarded(cfg.Updater, calls)
	} else {
		u.conns = member.NewConns(cfg.Dialer, cfg.CallTimeout)
		u.applier = member.NewApplier(u.conns, e.contents.Load, cfg.Prober, member.Options{
			Timeout: cfg.CallTimeout, Poll: cfg.Poll, Recheck: min(2*time.Second, cfg.Lease/2),
			Now: e.state.Now, LeaseHeld: e.state.LeaseHeld, Failing: e.failing.note, Rules: cfg.Rules,
			Saw: func(ctx context.Context, found drift.ClusterReport) error { return e.drifts.RecordDrift(ctx, found) },
		})
		u.updater = u.applier
	}
	e.planner = planning.New(planning.Options{
		State: e.state, Contents: e.contents, Source: cfg.Source, Rules: cfg.Rules, NamespaceRules: *cfg.NamespaceRules,
		Restrictions: cfg.Restrictions, Updater: cfg.Updater, Updates: calls, Metrics: cfg.Metrics, CallTimeout: cfg.CallTimeout,
	})
	e.drifts = driftwatch.New(driftwatch.Options{
		Store: e.store, State: e.state, Planner: e.planner, Applier: u.applier, Limiter: u.limiter,
		Name: cfg.Name, Lease: cfg.Lease, Skew: cfg.Skew, CallTimeout: cfg.CallTimeout, Poll: cfg.Poll, Reported: cfg.Reported, Log: cfg.Log,
	})
	e.admitter = admission.New(admission.Options{
		Store: e.store, State: e.state, Caps: e.caps, Contents: e.contents, Planner: e.planner, CallTimeout: cfg.CallTimeout,
		Forget: func(ctx context.Context, placement string) {
			_ = e.drifts.ForgetDrift(ctx, placement, func(string) bool { return false })
			e.failing.forget(placement)
		},
	})
	return e, nil
}

// Start drives the runs in the store until ctx ends: runs without an engine, runs of engines that
// have not renewed their lease, and the runs that an engine with the same Config.Name drove before.
// If several engines share a store, the first engine that claims a run keeps it. Start returns when
// ctx has ended, everything it started has ended too, and its leases are released. Errors of stores
// and clusters do not end it: they are logged and retried. A clean stop returns nil. Start must not
// be called twice at the same time.
func (e *Engine) Start(ctx context.Context) error {
	u := &e.updates
	var examiner *examine.Examiner
	if u.applier != nil {
		examiner = examine.New(examine.Options{
			Store: e.store, State: e.state, Applier: u.applier, Load: e.contents.Load, Limiter: u.limiter,
			Poll: e.cfg.Poll, Lease: e.cfg.Lease, Queues: e.cfg.Queues, Log: e.cfg.Log,
		})
	}
	runner.New(runner.Options{
		Store: e.store, State: e.state, Caps: e.caps, Commands: e.commands, Admission: e.admitter, Drifts: e.drifts, Updater: u.updater, Conns: u.conns, Limiter: u.limiter,
		Authority: e.cfg.Authority, Metrics: e.cfg.Metrics, Examiner: examiner, Queues: e.cfg.Queues, Windows: e.cfg.Windows, Name: e.cfg.Name, Lease: e.cfg.Lease, Skew: e.cfg.Skew,
		CallTimeout: e.cfg.CallTimeout, Poll: e.cfg.Poll, Clock: e.cfg.Clock, Log: e.cfg.Log,
	}).Run(ctx)
	return nil
}

// Placements returns the names of the placements, ascending.
func (e *Engine) Placements(ctx context.Context) ([]string, error) {
	var out []string
	for rec, err := range e.store.List(ctx, record.PlacementKey("")) {
		if err != nil {
			return nil, err
		}
		out = append(out, strings.TrimPrefix(rec.Key, record.PlacementKey("")))
	}
	return out, nil
}
