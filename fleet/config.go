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

// Config configures an [Engine]. Store and Inventory are required, and either Dialer or Updater;
// every other field has a useful zero value.
type Config struct {
	// Store keeps all state. Engines that share a store share the work. Its methods must return
	// when the context of the call ends.
	Store backend.Store
	// Inventory lists the clusters.
	Inventory backend.Inventory
	// Dialer reaches the clusters. It is optional if Updater does not use it.
	Dialer backend.Dialer
	// Source provides the objects for snapshots. Without a Source, runs must name the index of an
	// existing snapshot.
	Source snapshot.Source
	// Rules exclude objects from every placement, whatever it selects. The engine checks them when
	// a placement is declared and for every new snapshot. Earlier snapshots do not change, but
	// excluded objects in them are neither rolled out nor restored by a rollback. The zero value
	// excludes the objects that snapshot.Propagates excludes.
	Rules snapshot.Rules
	// NamespaceRules are further limits for the authors of a namespace: a placement with a
	// Namespace may bring only the objects that these rules allow, also out of a ResourceEnvelope,
	// and an override with a Namespace may change only these objects, in any placement. The engine
	// checks them when it checks Rules. nil means snapshot.NamespaceRules(), which allows the
	// objects that the built-in role edit may create; a pointer to the zero value allows
	// everything.
	NamespaceRules *snapshot.Rules
	// Authority answers the requests of approval gates, in addition to people, who answer by
	// [RunHandle.Command]. The documentation of this package says when the engine asks it.
	Authority approval.Authority
	// Metrics are the metric providers, by the names that checks of strategies use. A check whose
	// provider is missing is an Error, so engines that share a store must have the same providers.
	Metrics map[string]backend.MetricProvider
	// Updater brings a cluster to a revision. Default: applying the snapshot.
	Updater backend.Updater
	// Windows says when clusters may be started; nil means at any time.
	Windows Windows
	// Restrictions are the changes that no override may make. The engine checks them when a
	// placement is declared and again when a run is planned, also for overrides that were frozen
	// earlier and for rollbacks. They do not affect objects that clusters have already.
	Restrictions []placement.Restriction
	// Prober reports whether an object is healthy. Default: kstatus.
	Prober health.Prober

	// Name identifies the engine among the engines that share a store. An engine that restarts
	// under its old name resumes its runs at once; two live engines must not have the same name.
	// Default: random.
	Name string
	// Lease is the time that a run stays with an engine that does not renew its lease. It
	// must be at least one and a half times CallTimeout, because a lease, or the session that
	// extends it, is renewed after a third of its duration, and the renewal may take one call. At
	// most 24 h; default 15 s or the minimum for CallTimeout. Skew is the largest difference
	// between the clocks of engines, less than Lease; default 2 s, or a quarter of Lease if that is
	// less.
	//
	// Engines that share a store must have the same Lease and Skew. Both are for liveness: safety
	// does not depend on clocks. The engines tolerate a clock that differs by more than Skew: an
	// engine keeps its runs while its record in the store changes, and loses them if the record has
	// not changed for Lease plus Skew. The time in the record does not matter.
	Lease, Skew time.Duration
	// CallTimeout bounds every call to a plug-in and every read and write of a
	// record; default 10 s, or two thirds of Lease if that is less.
	CallTimeout time.Duration
	// Poll is the initial interval for reading a backend that cannot be watched; the interval grows
	// while nothing changes. Default 1 s.
	Poll time.Duration
	// MaxUpdates is the largest number of concurrent cluster updates, over all runs; default 1024.
	MaxUpdates int
	// Clock returns the time of day; default time.Now. All recorded times, and therefore waits and
	// leases, use it. It may jump: package stages describes the effect on waits, and Skew the
	// effect on leases. It is called concurrently and must return at once.
	Clock func() time.Time
	// RollbackName returns the nth proposal, counted from 1, for the name of a run that rolls back
	// the run with the given name and [RunSpec].Title; the engine takes the first name that is not
	// in use. It must be a pure function that returns at once and may be called concurrently, and
	// it must return another DNS subdomain of at most 63 characters for each n. Engines that share
	// a store must have the same function. If it is nil, or returns an invalid name, the engine
	// uses the function [RollbackName] with the run's name and n.
	RollbackName func(run, title string, n int) string
	// Reported, if not nil, receives the status of the objects on a cluster each time this engine
	// has compared the cluster: when the watch begins, when an object changes there, and after a
	// run. Only placements with ReportStatus have such a status. An unchanged status may be
	// repeated. It may be called concurrently and must return at once.
	Reported func(apply.StatusReport)
	// Queues, if not nil, measures the depth and the delay of this engine's queues. It is a
	// workqueue.MetricsProvider of client-go; package fleet/metrics has an implementation.
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
	// longestLease is far longer than useful, and far shorter than a value that would overflow with
	// other times added.
	longestLease = 24 * time.Hour
	// longestCall is the longest call timeout for which the longest lease suffices.
	longestCall = longestLease * 2 / 3
)

// checkLease checks the times that depend on each other.
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
