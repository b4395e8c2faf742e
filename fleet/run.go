package fleet

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Run drives the runs in the store until ctx ends: those that nobody drives,
// those of engines that have not been heard of for a lease, and those that it
// had before under the same name. It returns ctx's error, after everything it
// started has ended and its leases are given back. It is called once at a
// time.
func (e *Engine) Run(ctx context.Context) error {
	if e.conns != nil {
		e.conns.reopen()
	}
	r := &runner{e: e, drivers: map[string]*driver{}, due: map[string]time.Time{}, kick: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(func() { r.follow(ctx, "run/", r.runChanged) })
	wg.Go(func() { r.follow(ctx, "command/", r.commandGiven) })
	wg.Go(func() { r.follow(ctx, "placement/", r.placementChanged) })
	wg.Go(func() { r.followFleet(ctx) })
	r.claim(ctx)
	wg.Wait()
	r.driving.Wait()
	if e.conns != nil {
		e.conns.Close()
	}
	return ctx.Err()
}

// runner shares the runs of a store out.
type runner struct {
	e       *Engine
	driving sync.WaitGroup
	kick    chan struct{}

	mu      sync.Mutex
	drivers map[string]*driver
	// due says when a run is to be looked at.
	due   map[string]time.Time
	fleet map[string]placement.Cluster
}

// follow calls changed for every key under prefix that is there or is written.
func (r *runner) follow(ctx context.Context, prefix string, changed func(context.Context, backend.Change)) {
	for wait := r.e.cfg.Poll; ; wait = min(2*wait, 10*r.e.cfg.Poll) {
		for c, err := range backend.Watch(ctx, r.e.store, prefix, r.e.cfg.Poll) {
			if err != nil {
				break
			}
			wait = r.e.cfg.Poll
			changed(ctx, c)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func (r *runner) runChanged(_ context.Context, c backend.Change) {
	name := strings.TrimPrefix(c.Key, "run/")
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d := r.drivers[name]; {
	case d != nil && c.Deleted:
		d.nudge()
	case d == nil && !c.Deleted:
		at := time.Time{}
		if _, known := r.due[name]; known {
			// Somebody else has it and saves often, or has just let it go.
			at = time.Now().Add(r.e.cfg.Poll)
		}
		r.lookLocked(name, at)
	}
}

// commandGiven wakes the driver of the run that a command is for.
func (r *runner) commandGiven(ctx context.Context, c backend.Change) {
	if c.Deleted {
		return
	}
	uid, _, _ := strings.Cut(strings.TrimPrefix(c.Key, "command/"), "/")
	if !r.nudgeIf(func(d *driver) bool { return d.uid == uid }) {
		r.lookForUID(ctx, uid)
	}
}

// nudgeIf nudges the drivers that match and tells whether there were any.
func (r *runner) nudgeIf(match func(*driver) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := false
	for _, d := range r.drivers {
		if match(d) {
			d.nudge()
			found = true
		}
	}
	return found
}

// lookForUID has the run of a UID looked at: it may have ended, and be started
// again.
func (r *runner) lookForUID(ctx context.Context, uid string) {
	for rec, err := range r.e.store.List(ctx, "run/") {
		if err != nil {
			return
		}
		var rr runRecord
		if decodeRecord(rec, &rr) == nil && rr.Run.UID == uid {
			r.look(rr.Run.Name, time.Time{})
			return
		}
	}
}

func (r *runner) placementChanged(_ context.Context, c backend.Change) {
	name := strings.TrimPrefix(c.Key, "placement/")
	r.nudgeIf(func(d *driver) bool { return d.placement == name })
}

// followFleet hands every change of the inventory to the drivers.
func (r *runner) followFleet(ctx context.Context) {
	for wait := r.e.cfg.Poll; ; wait = min(2*wait, 10*r.e.cfg.Poll) {
		for _, err := range backend.WatchInventory(ctx, r.e.cfg.Inventory, r.e.cfg.Poll) {
			if err != nil {
				break
			}
			fleet, err := r.e.inventory(ctx)
			if err != nil {
				r.e.log.Warn("the inventory could not be read", "error", err)
				break
			}
			wait = r.e.cfg.Poll
			r.fleetChanged(fleet)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}

func (r *runner) fleetChanged(fleet map[string]placement.Cluster) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleet = fleet
	for _, d := range r.drivers {
		d.tellFleet(fleet)
	}
}

// look has a run looked at, at a time or at once.
func (r *runner) look(name string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lookLocked(name, at)
}

func (r *runner) lookLocked(name string, at time.Time) {
	if old, ok := r.due[name]; !ok || at.Before(old) {
		r.due[name] = at
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// claim takes runs that are due until ctx ends.
func (r *runner) claim(ctx context.Context) {
	for {
		names, next := r.ready(time.Now())
		for _, name := range names {
			if err := r.take(ctx, name); err != nil && ctx.Err() == nil {
				r.e.log.Warn("a run was not taken", "run", name, "error", err)
				r.look(name, time.Now().Add(r.e.cfg.Lease/3))
			}
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.kick:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// ready returns the runs that are due, and how long it is to the next one.
func (r *runner) ready(now time.Time) (names []string, next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next = r.e.cfg.Lease
	for name, at := range r.due {
		if !at.After(now) {
			names = append(names, name)
			delete(r.due, name)
			continue
		}
		next = min(next, at.Sub(now))
	}
	return names, next
}

// take drives a run, if it needs driving and its lease is free.
func (r *runner) take(ctx context.Context, name string) error {
	rec, rev, err := r.e.runAt(ctx, name)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if r.driven(name) || !r.e.needsDriver(ctx, rec) {
		return nil
	}
	if rec.Lease.Holder != r.e.cfg.Name && !rec.Lease.freeAt(time.Now(), r.e.cfg.Skew) {
		r.look(name, rec.Lease.Until.Time().Add(r.e.cfg.Skew+time.Millisecond))
		return nil
	}
	rev, err = r.e.acquire(ctx, rec, rev)
	if errors.Is(err, backend.ErrConflict) {
		r.look(name, time.Now().Add(time.Millisecond))
		return nil
	}
	if err != nil {
		return err
	}
	if err = r.drive(ctx, rec, rev); err != nil && ctx.Err() != nil {
		newDriver(r.e, rec, rev, nil).giveBack(context.WithoutCancel(ctx))
	}
	return err
}

func (r *runner) driven(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drivers[name] != nil
}

// needsDriver tells whether a run has anything to do: it has not ended, its end
// has not been seen to, or somebody asks something of it.
func (e *Engine) needsDriver(ctx context.Context, rec *runRecord) bool {
	if !rec.Run.IsEnded() || rec.Lease.Holder != "" {
		return true
	}
	for range e.store.List(ctx, commandKey(rec.Run.UID, "")) {
		return true
	}
	return false
}

// acquire takes the lease of a run under a new epoch. The epoch is the
// placement's, so that it is higher than that of every run and every engine
// that wrote to a cluster for this placement before.
func (e *Engine) acquire(ctx context.Context, rec *runRecord, rev backend.Revision) (backend.Revision, error) {
	p, err := e.updatePlacement(ctx, rec.Run.Placement, func(p *placementRecord) ([]stages.Event, error) {
		p.Epoch++
		return nil, nil
	})
	if err != nil {
		return "", err
	}
	rec.Lease = lease{Holder: e.cfg.Name, Epoch: p.Epoch, Until: stages.At(time.Now()).Add(e.cfg.Lease)}
	rec.Seq++
	taken := stages.Event{
		Time: e.now(), Type: stages.RunTaken, Placement: rec.Run.Placement, Run: rec.Run.Name,
		By: e.cfg.Name, Epoch: p.Epoch,
	}
	j := journal{store: e.store, stream: rec.Run.UID}
	if rec.Journal, err = j.append(ctx, rec.Journal, []stages.Event{taken}); err != nil {
		return "", err
	}
	if rev, err = e.store.Put(ctx, runKey(rec.Run.Name), encodeRecord(rec), rev); err == nil {
		j.commit(ctx)
	}
	return rev, err
}

// drive starts the driver of a run whose lease was taken.
func (r *runner) drive(ctx context.Context, rec *runRecord, rev backend.Revision) error {
	plan, err := r.e.readPlan(ctx, rec.Run.Plan)
	if err != nil {
		return err
	}
	p, _, err := r.e.placementAt(ctx, rec.Run.Placement)
	if err != nil {
		return err
	}
	d := newDriver(r.e, rec, rev, plan)
	d.coOwnership = p.Placement.AllowCoOwnership
	r.mu.Lock()
	r.drivers[d.name] = d
	if r.fleet != nil {
		d.tellFleet(r.fleet)
	}
	r.mu.Unlock()
	r.driving.Go(func() { r.mind(ctx, d) })
	return nil
}

// mind runs a driver to its end and looks after what it leaves.
func (r *runner) mind(ctx context.Context, d *driver) {
	err := d.run(ctx)
	r.mu.Lock()
	delete(r.drivers, d.name)
	r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		d.giveBack(context.WithoutCancel(ctx))
	case err == nil:
		r.look(d.name, time.Now())
	default:
		r.e.log.Warn("a run was let go", "run", d.name, "error", err)
		d.letGo(ctx)
		r.look(d.name, time.Now().Add(time.Second))
	}
}

// giveBack frees the lease of a run that its engine stops driving. A run that
// has ended keeps its holder, which tells that its end was not seen to.
func (d *driver) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.e.cfg.CallTimeout)
	defer cancel()
	if d.resolve(ctx) != nil || d.rec.Lease.Holder == "" {
		return
	}
	next := *d.rec
	next.Lease.Until = 0
	if !next.Run.IsEnded() {
		next.Lease.Holder = ""
	}
	next.Seq++
	_, _ = d.e.store.Put(ctx, runKey(d.name), encodeRecord(&next), d.rev)
}

// watchUpdates yields whenever what an updater sees of a cluster may have
// changed; without a watch, at growing intervals.
func watchUpdates(ctx context.Context, u Updater, a Assignment, poll time.Duration) iter.Seq2[struct{}, error] {
	if w, ok := u.(Watcher); ok {
		return rewatch(ctx, func() iter.Seq2[struct{}, error] { return w.Watch(ctx, a) }, poll)
	}
	return func(yield func(struct{}, error) bool) {
		for wait := poll; yield(struct{}{}, nil) && sleep(ctx, wait); wait = min(2*wait, 10*poll) {
		}
	}
}

// rewatch begins a watch again whenever it ends.
func rewatch(ctx context.Context, watch func() iter.Seq2[struct{}, error], poll time.Duration) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		for wait := poll; ; wait = min(2*wait, 10*poll) {
			for _, err := range watch() {
				if err == nil {
					wait = poll
				}
				if !yield(struct{}{}, err) {
					return
				}
			}
			if !sleep(ctx, wait) {
				return
			}
		}
	}
}

// reopen lets connections be dialled again after Close.
func (c *conns) reopen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = false
}
