package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Config is what an [Engine] is made of. Store and Inventory are required, and
// either Dialer or Updater; every other field has a useful zero value.
type Config struct {
	// Store keeps all state. Engines that share a store share the work. It must
	// return when the context of a call ends.
	Store backend.Store
	// Inventory lists the clusters.
	Inventory backend.Inventory
	// Dialer reaches the clusters. It is not needed with an Updater that does
	// not.
	Dialer backend.Dialer
	// Source is where snapshots are taken from. Without one, runs name an
	// index that exists.
	Source snapshot.Source
	// Rules are what is never placed, whatever a placement selects. They are checked
	// when a placement is declared and hold for every snapshot that is taken; those
	// that were taken before stay as they are, and are neither rolled out nor brought
	// back by a run that takes another one back. The zero value excludes what
	// snapshot.Propagates does.
	Rules snapshot.Rules
	// NamespaceRules are what the authors of a namespace may bring to clusters, beside
	// what Rules exclude: by a placement that has a Namespace, also in a ResourceEnvelope,
	// and what an override of a namespace may change, whichever placement it is of.
	// They are checked when Rules are. nil is snapshot.NamespaceRules(), which is what the
	// built-in role edit may create; a pointer to the zero value allows everything.
	NamespaceRules *snapshot.Rules
	// Authority is asked at approval gates, beside the people that call
	// Engine.Decide. When it is asked is in the documentation of the package.
	Authority approval.Authority
	// Metrics are asked by the checks of strategies, by the names that these give them. A check whose provider is not there is
	// an Error, so engines that share a store have the same.
	Metrics map[string]backend.MetricProvider
	// Updater brings a cluster to a revision. Default: applying the snapshot.
	Updater backend.Updater
	// Windows tells when clusters may be started; nil means at any time.
	Windows Windows
	// Restrictions are what no override may change. They are checked when a
	// placement is declared and again when a run is planned, also for overrides
	// that were frozen before, or takes another one back; they do not touch what
	// clusters have already.
	Restrictions []placement.Restriction
	// Prober reports whether an object is healthy. Default: kstatus.
	Prober health.Prober

	// Name tells engines that share a store apart. One that starts again under
	// its old name takes its runs back at once; two that live must not have
	// the same. Default: random.
	Name string
	// Lease is how long a run stays with an engine that is not heard of, at
	// least one and a half times CallTimeout: a lease, or the session that
	// extends it, is renewed when a third of it is over, and that may take one
	// call. At most 24 h, default 15 s or
	// what CallTimeout demands. Skew is by how much clocks of engines may differ,
	// less than Lease; default 2 s, at most a quarter of Lease.
	//
	// Engines that share a store must have the same Lease and Skew. Both are
	// for liveness: safety does not depend on clocks. An engine whose clock
	// differs by more than Skew is bearable too: the runs of an engine whose
	// record changes are left to it, and those whose record stands still for
	// Lease and Skew are taken over, whatever time is in it.
	Lease, Skew time.Duration
	// CallTimeout bounds every call to a plug-in and every read and write of a
	// record; default 10 s, at most two thirds of Lease.
	CallTimeout time.Duration
	// Poll is how often a backend that cannot be watched is read, at
	// first; the interval grows while nothing changes. Default 1 s.
	Poll time.Duration
	// MaxUpdates is how many clusters are worked on at the same time, over all
	// runs; default 1024.
	MaxUpdates int
	// Clock tells the time of day; default time.Now. Whatever is recorded has its
	// time, so waits and leases are by it. It may jump: package stages says what
	// becomes of waits then, and Skew what becomes of leases. It is called
	// concurrently, and returns at once.
	Clock func() time.Time
	// RollbackName names the nth run, from 1, that takes back the run of that name and
	// [RunSpec].Title; names that are taken are passed over. It is a pure function,
	// called concurrently, that returns another DNS subdomain of at most 63 characters
	// for each n, at once. Engines that share a store have the same. Where it is nil, or
	// returns no such name, it is the function [RollbackName] of the name and n.
	RollbackName func(run, title string, n int) string
	// Reported, where it is not nil, gets the status of the objects of placements that have ReportStatus, each time that this
	// engine has compared a cluster: when the watch begins, when an object changes there, and after a run. What has not changed
	// may come again. It may be called concurrently, and returns at once.
	Reported func(apply.StatusReport)
	// Queues, where it is not nil, measures what is due in this engine and how far it lags behind: package metrics has one.
	Queues reconcile.Metrics
	// Log may be nil.
	Log *slog.Logger
}

func (c *Config) check() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("fleet: Config.Store is missing: it keeps the engine's state, memory.NewStore() for a test"))
	}
	if c.Inventory == nil {
		errs = append(errs, errors.New("fleet: Config.Inventory is missing: it lists the clusters"))
	}
	if c.Dialer == nil && c.Updater == nil {
		errs = append(errs, errors.New("fleet: Config.Dialer is missing: it reaches the clusters; only with an Updater of its own can a host leave it out"))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Lease", c.Lease}, {"Skew", c.Skew}, {"CallTimeout", c.CallTimeout}, {"Poll", c.Poll}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("fleet: Config.%s is %v: it must not be negative, and 0 is the default", f.name, f.value))
		}
	}
	errs = append(errs, c.checkLease()...)
	errs = append(errs, problems.About("fleet: Config", c.Rules.Validate(field.NewPath("Rules"))))
	if c.NamespaceRules != nil {
		errs = append(errs, problems.About("fleet: Config", c.NamespaceRules.Validate(field.NewPath("NamespaceRules"))))
	}
	errs = append(errs, problems.About("fleet: Config", placement.ValidateRestrictions(c.Restrictions, field.NewPath("Restrictions"))))
	if c.MaxUpdates < 0 {
		errs = append(errs, fmt.Errorf("fleet: Config.MaxUpdates is %d: it must not be negative, and 0 is the default", c.MaxUpdates))
	}
	return errors.Join(errs...)
}

const (
	// shortestLease leaves time to renew a lease with clocks in milliseconds.
	shortestLease = 10 * time.Millisecond
	// longestLease is far more than makes sense, and far less than would
	// overflow with other times added.
	longestLease = 24 * time.Hour
	// longestCall fits into it.
	longestCall = longestLease * 2 / 3
)

// checkLease checks the times that have to fit together.
func (c *Config) checkLease() (errs []error) {
	if c.Lease > 0 && c.Lease < shortestLease {
		errs = append(errs, fmt.Errorf("fleet: Config.Lease is %v: it must be at least %v", c.Lease, shortestLease))
	}
	if c.Lease > longestLease {
		errs = append(errs, fmt.Errorf("fleet: Config.Lease is %v: it must be at most %v, the runs of an engine that is gone wait that long", c.Lease, longestLease))
	}
	if c.CallTimeout > longestCall {
		return append(errs, fmt.Errorf("fleet: Config.CallTimeout is %v: it must be at most %v, two thirds of the longest lease", c.CallTimeout, longestCall))
	}
	if c.Lease > 0 && c.CallTimeout > 0 && c.Lease < c.CallTimeout+c.CallTimeout/2 {
		errs = append(errs, fmt.Errorf("fleet: Config.Lease is %v and CallTimeout %v: Lease must be at least one and a half times as long, %v, or it ends during one slow call", c.Lease, c.CallTimeout, c.CallTimeout+c.CallTimeout/2))
	}
	if lease := cmp.Or(c.Lease, c.defaultLease()); lease > 0 && c.Skew >= lease {
		errs = append(errs, fmt.Errorf("fleet: Config.Skew is %v and Lease %v: Skew must be less, it is by how much clocks may differ while a lease runs", c.Skew, lease))
	}
	return errs
}

func (c *Config) defaultLease() time.Duration {
	return max(15*time.Second, c.CallTimeout+c.CallTimeout/2)
}

func (c *Config) defaults() {
	if c.Name == "" {
		c.Name = record.NewUID()
	}
	rules := snapshot.NamespaceRules()
	if c.NamespaceRules != nil {
		rules = *c.NamespaceRules
	}
	c.NamespaceRules = &rules
	orDefault(&c.Lease, c.defaultLease())
	orDefault(&c.Skew, min(2*time.Second, c.Lease/4))
	orDefault(&c.CallTimeout, min(10*time.Second, c.Lease*2/3))
	orDefault(&c.Poll, time.Second)
	orDefault(&c.MaxUpdates, 1024)
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T time.Duration | int](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
