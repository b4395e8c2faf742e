package runner

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/balance"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/versioned"
)

// Runner drives its share of the runs in a store: it takes runs that need an engine and whose lease
// is free. It works from two queues, one of runs and one of placements.
type Runner struct {
	e                *engine
	runs, placements *reconcile.Queue[string]
	drift            *driftwatch.Reconciler
	balance          *balance.Balancer

	// taking makes this engine take one run at a time.
	taking turns

	mu      sync.Mutex
	drivers map[string]*driver
	// observed are the leases of the runs that this engine does not drive.
	observed map[string]observation
	// lapsed are the runs that this engine has let go although their leases still name it.
	lapsed map[string]bool
	fleet  map[string]placement.Cluster
}

// The waits after an error: the first wait, the longest wait, and the shortest wait after a
// permanent error.
const (
	retryFirst   = 100 * time.Millisecond
	retryMost    = 5 * time.Second
	retryLasting = 5 * time.Minute
)

// New returns a runner.
func New(o Options) *Runner {
	r := &Runner{e: newEngine(o), drivers: map[string]*driver{}, observed: map[string]observation{}, lapsed: map[string]bool{}}
	r.balance = balance.New(balance.Options{
		Store: o.Store, Name: o.Name, Lease: o.Lease, Skew: o.Skew, Now: o.State.Now, Here: o.State.Here, Log: o.Log,
		Count: r.count, Watches: func() bool { return r.drift.Holds() }, Lapsed: r.lapsedLeases, GiveBack: r.share,
	})
	r.e.session = r.balance
	r.drift = driftwatch.NewReconciler(o.Drifts, r.balance)
	r.runs = reconcile.New(reconcile.Options[string]{
		Reconcile: r.reconcileRun, Failed: r.runFailed, First: retryFirst, Most: retryMost, AtLeast: atLeast,
		Name: "runs", Metrics: o.Queues,
	})
	r.placements = reconcile.New(reconcile.Options[string]{
		Reconcile: r.reconcilePlacement, First: o.Poll, Most: 10 * o.Poll, Name: "placements", Metrics: o.Queues,
		Failed: func(_ context.Context, name string, err error) {
			r.e.Log.Warn("what a placement has under way is tried again", "placement", name, "error", err)
		},
	})
	return r
}

// atLeast returns the shortest wait after an error of a run.
func atLeast(err error) time.Duration {
	if newer := (*versioned.FormatError)(nil); errors.Is(err, backend.ErrPermanent) || errors.As(err, &newer) {
		return retryLasting
	}
	return 0
}

// Run drives the runs in the store until ctx ends. It must be called only once.
func (r *Runner) Run(ctx context.Context) {
	if r.e.Conns != nil {
		r.e.Conns.Reopen()
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.runs.Run(ctx) })
	wg.Go(func() { r.placements.Run(ctx) })
	wg.Go(func() { r.follow(ctx, "run/", r.runChanged) })
	wg.Go(func() { r.follow(ctx, "command/", r.commandGiven) })
	wg.Go(func() { r.follow(ctx, "placement/", r.placementChanged) })
	wg.Go(func() { r.follow(ctx, record.CapKey(""), r.capChanged) })
	wg.Go(func() { r.followFleet(ctx) })
	wg.Go(func() { r.follow(ctx, record.EnginesPrefix, r.balance.Changed) })
	wg.Go(func() { r.balance.Run(ctx) })
	wg.Go(func() { r.follow(ctx, record.WatchKey(""), r.drift.LeaseChanged) })
	if r.e.Examiner != nil {
		wg.Go(func() { r.e.Examiner.Run(ctx) })
		wg.Go(func() {
			r.follow(ctx, record.CheckObjectsPrefix, func(_ context.Context, c backend.Change) { r.e.Examiner.Changed(c.Key) })
		})
	}
	wg.Go(func() { r.drift.Run(ctx) })
	if r.e.Conns != nil {
		wg.Go(func() { r.e.Conns.CloseIdle(ctx) })
	}
	wg.Wait()
	for _, d := range r.drivers {
		wg.Go(func() {
			d.end()
			d.giveBack(context.WithoutCancel(ctx))
		})
	}
	wg.Wait()
	r.balance.End(ctx)
	if r.e.Conns != nil {
		r.e.Conns.Close()
	}
}

// count returns the number of runs that this engine drives, and the known number that other engines
// drive.
func (r *Runner) count() (own, others int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.observed {
		if !o.idle && time.Now().After(o.settled) {
			others++
		}
	}
	return len(r.drivers), others
}

// lapsedLeases returns the keys of the records whose leases this engine's session must not extend.
// A run's lease lapses if its driver has ended, or has not finished a turn for two thirds of the
// lease duration because it hangs or every turn fails. The lease of a drift watch lapses if the
// watch was not reconciled for long.
func (r *Runner) lapsedLeases() []string {
	out := r.drift.Lapsed()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, d := range r.drivers {
		if d.lease.hangs() {
			out = append(out, record.RunKey(name))
		}
	}
	for name := range r.lapsed {
		out = append(out, record.RunKey(name))
	}
	slices.Sort(out)
	return out
}

// share releases n runs to other engines, beginning with the runs that have the fewest clusters in
// flight.
func (r *Runner) share(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	drivers := slices.Collect(maps.Values(r.drivers))
	slices.SortFunc(drivers, func(a, b *driver) int { return cmp.Compare(a.recorder.inFlight.Load(), b.recorder.inFlight.Load()) })
	for _, d := range drivers[:min(n, len(drivers))] {
		d.lease.yields.Store(true)
		d.wake()
	}
}

// reconcilePlacement takes one step of the work on a placement that belongs to no run: its
// deletion, or the planning of a rollback. All engines try; the first one takes the step.
func (r *Runner) reconcilePlacement(ctx context.Context, name string) (time.Duration, error) {
	done, err := r.e.Admission.Continue(ctx, name)
	if done || err != nil {
		return 0, err
	}
	return r.e.Poll, nil
}

// follow calls changed for every existing key under prefix and for every later change.
func (r *Runner) follow(ctx context.Context, prefix string, changed func(context.Context, backend.Change)) {
	pause := backoff.Poll(r.e.Poll).Spread()
	for failing := false; ; {
		for c, err := range backend.Watch(ctx, r.e.Store, prefix, r.e.Poll) {
			if err != nil {
				if !failing && ctx.Err() == nil {
					r.e.Log.Warn("records cannot be followed, which is tried again", "records", prefix, "error", err)
				}
				failing = true
				break
			}
			pause.Reset()
			failing = false
			changed(ctx, c)
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

// runChanged queues a changed run for reconciliation. It delays a run that another engine drives,
// because that engine saves often.
func (r *Runner) runChanged(_ context.Context, c backend.Change) {
	name := strings.TrimPrefix(c.Key, "run/")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d := r.drivers[name]; {
	case d != nil && c.Deleted:
		d.deleted.Store(true)
		d.wake()
	case d != nil:
		d.recorder.own.reported(c.Revision)
	case c.Deleted:
		delete(r.observed, name)
		delete(r.lapsed, name)
		r.runs.Forget(name)
	default:
		old, known := r.observed[name]
		if known && old.revision == c.Revision {
			return
		}
		now := r.observeLocked(name, c.Revision)
		now.news++
		r.observed[name] = now
		r.balance.Wake()
		if known {
			r.runs.AddAfter(name, r.e.Poll)
		} else {
			r.runs.Add(name)
		}
	}
}

// commandGiven wakes the driver of the run that received a command. If this engine has no driver
// for the run, it queues the run.
func (r *Runner) commandGiven(ctx context.Context, c backend.Change) {
	if c.Deleted {
		return
	}
	uid, _, _ := strings.Cut(strings.TrimPrefix(c.Key, "command/"), "/")
	found := false
	r.wake(func(d *driver) bool {
		if d.uid == uid {
			d.mail.add(c.Key)
			found = true
		}
		return d.uid == uid
	})
	pause := backoff.Poll(r.e.Poll).Spread()
	for !found && r.addByUID(ctx, uid) != nil && pause.Wait(ctx) {
	}
}

// wake wakes the drivers that match.
func (r *Runner) wake(match func(*driver) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.drivers {
		if match(d) {
			d.wake()
		}
	}
}

// addByUID queues the run with this UID, which has no driver here: it may have ended, and a command
// may start it again.
func (r *Runner) addByUID(ctx context.Context, uid string) error {
	for rec, err := range r.e.Store.List(ctx, "run/") {
		if err != nil {
			return err
		}
		var rr record.Run
		if record.Decode(rec, &rr) == nil && rr.Run.UID == uid {
			r.mu.Lock()
			o := r.observed[rr.Run.Name]
			o.news, o.idle, o.settled = o.news+1, false, time.Time{}
			r.observed[rr.Run.Name] = o
			r.mu.Unlock()
			r.runs.AddNow(rr.Run.Name)
			return nil
		}
	}
	return nil
}

// capChanged marks the cap as stale for the drivers that share it, and wakes them.
func (r *Runner) capChanged(_ context.Context, c backend.Change) {
	r.wake(func(d *driver) bool { return d.share.changed(c.Key) })
}

// placementChanged wakes the drivers of a placement, and queues its own work and its drift watch
// for reconciliation.
func (r *Runner) placementChanged(ctx context.Context, c backend.Change) {
	name := strings.TrimPrefix(c.Key, "placement/")
	r.wake(func(d *driver) bool { return d.placement == name })
	read := r.e.State.AtRevision(ctx, name, c.Revision)
	if rec, err := read(); err == nil && rec.IsUnderway() || err != nil && !state.IsNotFound(err) {
		r.placements.Add(name)
	}
	if r.e.Conns != nil {
		r.drift.Changed(ctx, name, read)
	}
}

// followFleet passes every change of the inventory to the drivers.
func (r *Runner) followFleet(ctx context.Context) {
	pause := backoff.Poll(r.e.Poll).Spread()
	for {
		for _, err := range r.e.State.World.WatchInventory(ctx) {
			if err != nil {
				break
			}
			fleet, err := r.e.State.World.Inventory(ctx)
			if err != nil {
				r.e.Log.Warn("the inventory could not be read", "error", err)
				break
			}
			pause.Reset()
			r.fleetChanged(fleet)
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

func (r *Runner) fleetChanged(fleet map[string]placement.Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drift.FleetChanged(r.fleet != nil && placement.SameButMeasured(r.fleet, fleet))
	r.fleet = fleet
	for _, d := range r.drivers {
		d.inventory.tell(fleet)
	}
}
