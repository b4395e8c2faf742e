package member

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
)

// Options are for [NewApplier]; zero values mean defaults.
type Options struct {
	// Timeout bounds a call to the prober; 10 s.
	Timeout time.Duration
	// Poll is how often the objects behind a connection that cannot watch are read; 1 s.
	Poll time.Duration
	// Recheck is after which time a leader reads the ledger again before it creates or
	// marks something; 2 s. It is to be less than a lease, so that a leader that lost
	// one while it was paused finds out: see mark.
	Recheck time.Duration
	// Now is the engine's clock; time.Now.
	Now func() time.Time
	// Held returns an error where an assignment is not its run's to carry out any more,
	// by the store; nil means that it always is. It is called when a ledger was made.
	Held func(context.Context, Assignment) error
	// Saw records what differs, where a strategy asks for it; it may be nil.
	Saw func(context.Context, drift.ClusterReport) error
	// Rules are the host's: what is in a namespace that they reserve is never deleted.
	Rules snapshot.Rules
	// Failing records which objects are not as they are to be, or proven that all
	// are; it may be nil.
	Failing func(a *Assignment, proven bool, objects []apply.FailingObject)
}

// Applier applies the objects of revisions. It is a [Watcher].
type Applier struct {
	conns    *Conns
	load     Loader
	probes   probes
	poll     time.Duration
	recheck  time.Duration
	compiler compiler
	tries    failureCounts
	now      func() time.Time
	held     func(context.Context, Assignment) error
	saw      func(context.Context, drift.ClusterReport) error
	noted    func(a *Assignment, proven bool, objects []apply.FailingObject)
	rules    snapshot.Rules
}

// NewApplier returns an applier over connections that takes revisions from load. A nil prober is kstatus.
func NewApplier(conns *Conns, load Loader, prober health.Prober, o Options) *Applier {
	u := &Applier{
		conns: conns, load: load, poll: o.Poll, recheck: o.Recheck, compiler: newCompiler(), tries: newFailureCounts(),
		probes: probes{prober, conns.guard}, now: o.Now, saw: o.Saw, held: o.Held, noted: o.Failing, rules: o.Rules,
	}
	if u.now == nil {
		u.now = time.Now
	}
	if u.held == nil {
		u.held = func(context.Context, Assignment) error { return nil }
	}
	if u.saw == nil {
		u.saw = func(context.Context, drift.ClusterReport) error { return nil }
	}
	if u.noted == nil {
		u.noted = func(*Assignment, bool, []apply.FailingObject) {}
	}
	if o.Timeout > 0 {
		u.probes.guard = conns.guard.Within(o.Timeout)
	}
	if u.recheck <= 0 {
		u.recheck = 2 * time.Second
	}
	return u
}

// revision returns the revision of an assignment, which has one.
func (u *Applier) revision(ctx context.Context, a *Assignment) (*Revision, error) {
	if a.check != nil {
		return a.check, nil
	}
	return u.load(ctx, a.Placement, a.Revision)
}
