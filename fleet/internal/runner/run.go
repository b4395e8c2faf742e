package runner

import (
	"context"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/driftwatch"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/placement"
)

// Runner shares the runs of a store out.
type Runner struct {
	e       *engine
	driving sync.WaitGroup
	kick    chan struct{}

	mu      sync.Mutex
	drivers map[string]*driver
	// due says when a run is to be looked at, failed how often in a row it was
	// not taken or was let go; rests are those that are left alone for a while.
	due    map[string]time.Time
	failed map[string]int
	rests  map[string]rest
	// sights are the runs that other engines have.
	sights    map[string]sight
	fleet     map[string]placement.Cluster
	keeper    *driftwatch.Reconciler
	deletions *deletions
}

// New returns a runner.
func New(o Options) *Runner {
	e := newEngine(o)
	return &Runner{
		e: e, kick: make(chan struct{}, 1), drivers: map[string]*driver{},
		due: map[string]time.Time{}, failed: map[string]int{}, rests: map[string]rest{},
		sights: map[string]sight{}, keeper: driftwatch.NewReconciler(o.Drifts), deletions: newDeletions(e),
	}
}

// Run drives the runs in the store until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	if r.e.conns != nil {
		r.e.conns.Reopen()
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.follow(ctx, "run/", r.runChanged) })
	wg.Go(func() { r.follow(ctx, "command/", r.commandGiven) })
	wg.Go(func() { r.follow(ctx, "placement/", r.placementChanged) })
	wg.Go(func() { r.follow(ctx, record.CapKey(""), r.capChanged) })
	wg.Go(func() { r.followFleet(ctx) })
	if r.e.conns != nil {
		wg.Go(func() { r.e.conns.CloseIdle(ctx) })
	}
	r.claim(ctx)
	wg.Wait()
	r.driving.Wait()
	r.keeper.All.Wait()
	r.deletions.all.Wait()
	if r.e.conns != nil {
		r.e.conns.Close()
	}
	return ctx.Err()
}

// follow calls changed for every key under prefix that is there or is written.
func (r *Runner) follow(ctx context.Context, prefix string, changed func(context.Context, backend.Change)) {
	pause := backoff.Poll(r.e.cfg.Poll)
	for {
		for c, err := range backend.Watch(ctx, r.e.store, prefix, r.e.cfg.Poll) {
			if err != nil {
				break
			}
			pause.Reset()
			changed(ctx, c)
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

func (r *Runner) runChanged(_ context.Context, c backend.Change) {
	name := strings.TrimPrefix(c.Key, "run/")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d := r.drivers[name]; {
	case d != nil && c.Deleted:
		d.deleted.Store(true)
		d.nudge()
	case c.Deleted:
		r.forgetLocked(name)
	case d == nil:
		r.sawLocked(name, c.Revision)
		r.lookLocked(name, r.whenLocked(name))
	}
}

// whenLocked is when a run is looked at whose record has changed.
func (r *Runner) whenLocked(name string) time.Time {
	if _, known := r.due[name]; known {
		// Somebody else has it and saves often, or has just let it go.
		return time.Now().Add(r.e.cfg.Poll)
	}
	return time.Time{}
}

// commandGiven wakes the driver of the run that a command is for.
func (r *Runner) commandGiven(ctx context.Context, c backend.Change) {
	if c.Deleted {
		return
	}
	uid, _, _ := strings.Cut(strings.TrimPrefix(c.Key, "command/"), "/")
	if r.tell(true, func(d *driver) bool { return d.uid == uid }) {
		return
	}
	pause := backoff.Poll(r.e.cfg.Poll)
	for r.lookForUID(ctx, uid) != nil && pause.Wait(ctx) {
	}
}

// tell has the drivers that match take another turn, and reports whether there were
// any. Those that may have been asked something read their commands first.
func (r *Runner) tell(asked bool, match func(*driver) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := false
	for _, d := range r.drivers {
		if match(d) {
			if asked {
				d.asked.Store(true)
			}
			backoff.Wake(d.poke)
			found = true
		}
	}
	return found
}

// lookForUID has the run of a UID looked at: it may have ended, and be started
// again.
func (r *Runner) lookForUID(ctx context.Context, uid string) error {
	for rec, err := range r.e.store.List(ctx, "run/") {
		if err != nil {
			return err
		}
		var rr record.Run
		if record.Decode(rec, &rr) == nil && rr.Run.UID == uid {
			r.forgive(rr.Run.Name)
			r.look(rr.Run.Name, time.Time{})
			return nil
		}
	}
	return nil
}

func (r *Runner) placementChanged(ctx context.Context, c backend.Change) {
	name := strings.TrimPrefix(c.Key, "placement/")
	r.tell(false, func(d *driver) bool { return d.placement == name })
	read := r.e.state.AtRevision(ctx, name, c.Revision)
	r.deletions.changed(ctx, name, read)
	if r.e.conns != nil {
		r.keeper.Changed(ctx, name, read)
	}
}

// followFleet hands every change of the inventory to the drivers.
func (r *Runner) followFleet(ctx context.Context) {
	pause := backoff.Poll(r.e.cfg.Poll)
	for {
		for _, err := range r.e.state.WatchInventory(ctx) {
			if err != nil {
				break
			}
			fleet, err := r.e.state.Inventory(ctx)
			if err != nil {
				r.e.log.Warn("the inventory could not be read", "error", err)
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
	r.keeper.FleetChanged()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleet = fleet
	for _, d := range r.drivers {
		d.tellFleet(fleet)
	}
}

// look has a run looked at, at a time or at once.
func (r *Runner) look(name string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookLocked(name, at)
}

func (r *Runner) lookLocked(name string, at time.Time) {
	if old, ok := r.due[name]; !ok || at.Before(old) {
		r.due[name] = at
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// watchUpdates yields whenever what an updater sees of a cluster may have
// changed; without a watch, at growing intervals.
func watchUpdates(ctx context.Context, u member.Updater, a member.Assignment, poll time.Duration) iter.Seq2[struct{}, error] {
	if w, ok := u.(member.Watcher); ok {
		return guard.Rewatch(ctx, func() iter.Seq2[struct{}, error] { return w.Watch(ctx, a) }, poll)
	}
	return func(yield func(struct{}, error) bool) {
		pause := backoff.Poll(poll)
		for yield(struct{}{}, nil) && pause.Wait(ctx) {
		}
	}
}
