package member

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
)

// Options configure [NewApplier]; zero values mean defaults.
type Options struct {
	// Timeout bounds a call to the prober; default 10 s.
	Timeout time.Duration
	// Poll is the interval of reads if a connection cannot watch; default 1 s.
	Poll time.Duration
	// Recheck is the maximum age of a leader's last read of the ledger when it creates or marks an
	// object; default 2 s. It should be less than a lease, so that a leader that lost its lease
	// during a pause notices: see mark.
	Recheck time.Duration
	// Now is the engine's clock; default time.Now.
	Now func() time.Time
	// LeaseHeld returns an error if the run no longer holds the assignment according to the store;
	// nil means that it always does. It is called after the write of a ledger that proved no
	// revision before.
	LeaseHeld func(context.Context, Assignment) error
	// Saw records the differences that remain after an update, if the strategy asks for that; it may
	// be nil.
	Saw func(context.Context, drift.ClusterReport) error
	// Rules are the host's rules: objects in a namespace that they reserve are never deleted.
	Rules snapshot.Rules
	// Failing records which objects are not as desired, or, with proven, that none fails; it may be
	// nil.
	Failing func(a *Assignment, proven bool, objects []apply.FailingObject)
}

// Applier applies the objects of revisions. It is a [Watcher].
type Applier struct {
	conns     *Conns
	load      Loader
	probes    probes
	poll      time.Duration
	recheck   time.Duration
	compiler  compiler
	tries     failureCounts
	now       func() time.Time
	leaseHeld func(context.Context, Assignment) error
	saw       func(context.Context, drift.ClusterReport) error
	noted     func(a *Assignment, proven bool, objects []apply.FailingObject)
	rules     snapshot.Rules
}

// NewApplier returns an applier that uses the connections and takes revisions from load. A nil
// prober means kstatus.
func NewApplier(conns *Conns, load Loader, prober health.Prober, o Options) *Applier {
	u := &Applier{
		conns: conns, load: load, poll: o.Poll, recheck: o.Recheck, compiler: newCompiler(), tries: newFailureCounts(),
		probes: probes{prober, conns.guard}, now: o.Now, saw: o.Saw, leaseHeld: o.LeaseHeld, noted: o.Failing, rules: o.Rules,
	}
	if u.now == nil {
		u.now = time.Now
	}
	if u.leaseHeld == nil {
		u.leaseHeld = func(context.Context, Assignment) error { return nil }
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

// revision returns the revision of an assignment whose Revision is not empty.
func (u *Applier) revision(ctx context.Context, a *Assignment) (*Revision, error) {
	if a.check != nil {
		return a.check, nil
	}
	return u.load(ctx, a.Placement, a.Revision)
}
