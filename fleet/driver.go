package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// inboxSize is how many observations wait for a driver before their senders do.
const inboxSize = 256

// errDone ends a driver whose run has ended.
var errDone = errors.New("the run has ended")

// driver carries one run out while its engine holds the lease.
type driver struct {
	e    *Engine
	name string
	// placement and uid are those of the run.
	placement, uid string
	// epoch is that of the lease.
	epoch int64
	rec   *runRecord
	rev   backend.Revision
	plan  *stages.Plan
	// coOwnership is the placement's, as it was when the driver began.
	coOwnership bool
	pages       flightPages
	journal     journal

	// in is what is new and not saved yet; taken are the records of its
	// commands.
	in    stages.Input
	taken []takenCommand
	// tried is how many observations the last attempt to save took in.
	tried int
	// failed tells that the last turn did not come to its end: the next one is
	// not before it is due.
	failed bool
	// renew tells that the lease has to be saved, unsure that the outcome of a
	// save is not known.
	renew, unsure bool
	renewed       time.Time

	inbox   chan stages.Observation
	poke    chan struct{}
	fenced  chan error
	workers map[int]*worker
	asking  map[string]context.CancelFunc
	asks    sync.WaitGroup
	round   int
	// fleet is the inventory, where it has changed; nil where not.
	fleet chan map[string]placement.Cluster
}

// takenCommand is the record of a command that is in the driver's input.
type takenCommand struct {
	backend.Record
	id string
}

func newDriver(e *Engine, rec *runRecord, rev backend.Revision, plan *stages.Plan) *driver {
	return &driver{
		e: e, name: rec.Run.Name, placement: rec.Run.Placement, uid: rec.Run.UID, epoch: rec.Lease.Epoch, rec: rec, rev: rev, plan: plan,
		pages:   flightPages{store: e.store, uid: rec.Run.UID},
		journal: journal{store: e.store, stream: rec.Run.UID},
		renewed: time.Now(),
		in:      stages.Input{Unwatched: true},
		inbox:   make(chan stages.Observation, inboxSize),
		poke:    make(chan struct{}, 1),
		fenced:  make(chan error, 1),
		workers: map[int]*worker{},
		asking:  map[string]context.CancelFunc{},
		fleet:   make(chan map[string]placement.Cluster, 1),
	}
}

// run drives the run until it has ended, ctx ends or the lease is lost.
func (d *driver) run(ctx context.Context) error {
	defer d.rest()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	d.nudge()
	for {
		wake, err := d.turn(ctx)
		if errors.Is(err, errDone) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.wait(ctx, wake); err != nil {
			return err
		}
	}
}

// prepare reads the clusters in flight and puts the run into the line of its
// placement, if a crash kept it out.
func (d *driver) prepare(ctx context.Context) (err error) {
	if d.rec.Run.Flights, err = d.pages.read(ctx, d.rec.Flights); err != nil {
		return err
	}
	if err := d.pages.sweep(ctx, d.rec.Lease.Epoch-1); err != nil {
		return err
	}
	if err := d.listen(ctx); err != nil {
		return err
	}
	if d.rec.Run.IsEnded() {
		return nil
	}
	return d.e.admit(ctx, d.rec, &draft{plan: d.plan, partial: true})
}

// turn steps the run once: decide, save, act.
func (d *driver) turn(ctx context.Context) (time.Time, error) {
	if err := d.resolve(ctx); err != nil {
		return d.later(err)
	}
	if err := d.queue(ctx); err != nil {
		return d.later(err)
	}
	d.in.Now = time.Now()
	ready := stages.Step(d.plan, d.rec.Run, d.in)
	if err := d.save(ctx, &ready); err != nil {
		return d.later(err)
	}
	d.failed = false
	d.act(ctx, ready.Actions)
	if d.rec.Run.IsEnded() {
		return time.Time{}, d.finish(ctx)
	}
	return ready.Wake, nil
}

// later decides what an error means for the driver: that it has lost the run,
// or that it tries again soon.
func (d *driver) later(err error) (time.Time, error) {
	if errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent) {
		return time.Time{}, err
	}
	d.e.log.Warn("a step was not saved and is tried again", "run", d.name, "error", err)
	d.failed = true
	return time.Now().Add(retryStore), nil
}

// retryStore is the wait after the store or the inventory failed.
const retryStore = 100 * time.Millisecond

// save commits the outcome of a step: pages and events first, then the run's
// record, which makes them count.
func (d *driver) save(ctx context.Context, ready *stages.Ready) error {
	d.tried = len(d.in.Observations)
	if !ready.Changed && !d.renew {
		d.consumed(ctx)
		return nil
	}
	next, old, err := d.compose(ctx, ready)
	if err != nil {
		return err
	}
	rev, err := d.e.store.Put(ctx, runKey(d.name), encodeRecord(next), d.rev)
	if err != nil {
		d.unsure = true
		return fmt.Errorf("run %s: %w", d.name, err)
	}
	d.saved(ctx, next, rev, old)
	return nil
}

// compose writes what the next record refers to and returns that record and
// the pages that it makes superfluous.
func (d *driver) compose(ctx context.Context, ready *stages.Ready) (*runRecord, []string, error) {
	next := *d.rec
	next.Run = ready.Run
	next.Seq++
	next.Lease.Until = stages.At(time.Now()).Add(d.e.cfg.Lease)
	var old []string
	var err error
	if next.Flights, old, err = d.pages.write(ctx, next.Lease.Epoch, next.Seq, ready.Run.Flights); err != nil {
		return nil, nil, err
	}
	if next.Journal, err = d.journal.append(ctx, d.rec.Journal, ready.Events); err != nil {
		return nil, nil, err
	}
	return &next, old, nil
}

// saved takes in that a record was committed.
func (d *driver) saved(ctx context.Context, next *runRecord, rev backend.Revision, old []string) {
	d.rec, d.rev = next, rev
	d.renew, d.renewed = false, time.Now()
	d.journal.commit(ctx)
	d.pages.commit(next.Flights, next.Run.Flights)
	d.pages.drop(ctx, old)
	d.consumed(ctx)
}

// consumed takes what the saved run has taken in out of the input, and deletes
// its commands from the store. One that cannot be deleted is known by its ID
// when it is read again.
func (d *driver) consumed(ctx context.Context) {
	d.in.Observations = slices.Clone(d.in.Observations[d.tried:])
	d.tried = 0
	d.in.Unwatched = false
	seen := func(id string) bool { return id == "" || slices.Contains(d.rec.Run.Seen, id) }
	d.in.Commands = slices.DeleteFunc(d.in.Commands, func(c stages.Command) bool { return seen(c.ID) })
	d.taken = slices.DeleteFunc(d.taken, func(t takenCommand) bool {
		if seen(t.id) {
			_ = d.e.store.Delete(ctx, t.Key, t.Revision)
		}
		return seen(t.id)
	})
}

// resolve finds out what became of a save that failed. Nobody else writes the
// record under this driver's epoch, so a record with a higher sequence is its
// own.
func (d *driver) resolve(ctx context.Context) error {
	if !d.unsure {
		return nil
	}
	rec, rev, err := d.e.runAt(ctx, d.name)
	if err != nil {
		return err
	}
	if rec.Run.UID != d.rec.Run.UID || rec.Lease.Epoch != d.rec.Lease.Epoch {
		return fmt.Errorf("run %s: %w: %s has it at epoch %d, this engine had it at %d", d.name, backend.ErrFenced, rec.Lease.Holder, rec.Lease.Epoch, d.rec.Lease.Epoch)
	}
	pages := flightPages{store: d.e.store, uid: rec.Run.UID}
	if rec.Run.Flights, err = pages.read(ctx, rec.Flights); err != nil {
		return err
	}
	d.unsure = false
	if rec.Seq > d.rec.Seq {
		d.pages.names, d.pages.saved = pages.names, pages.saved
		d.saved(ctx, rec, rev, nil)
	}
	d.rev = rev
	return nil
}

// letGo deletes the pages that this driver wrote and that whoever has the run
// now does not know.
func (d *driver) letGo(ctx context.Context) {
	rec, _, err := d.e.runAt(ctx, d.name)
	switch {
	case isNotFound(err) || err == nil && rec.Run.UID != d.uid:
		d.pages.withdraw(ctx, nil)
	case err == nil && rec.Lease.Epoch != d.epoch:
		d.pages.withdraw(ctx, rec.Flights)
	}
}

// held tells whether the run is still this driver's, by the store.
func (d *driver) held(ctx context.Context) (bool, error) {
	rec, _, err := d.e.runAt(ctx, d.name)
	if isNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return rec.Run.UID == d.uid && rec.Lease.Epoch == d.epoch, nil
}

// queue learns whether it is the run's turn on its placement, and asks those
// that are in its way to make way where it may.
func (d *driver) queue(ctx context.Context) error {
	run := &d.rec.Run
	d.in.Blocked = ""
	starting := slices.ContainsFunc(d.in.Commands, func(c stages.Command) bool { return c.Verb == stages.Start })
	switch {
	case run.Final(d.plan):
		return nil
	case run.State == stages.Failed && starting:
		return d.queueAgain(ctx)
	case run.Started != 0 || run.Hold && !starting || run.State == stages.Stopped && !starting:
		return nil
	}
	entry := stages.Entry{UID: run.UID, Run: run.Name, Index: d.plan.Index}
	var v stages.Verdict
	_, err := d.e.updatePlacement(ctx, run.Placement, func(rec *placementRecord) ([]stages.Event, error) {
		if err := rec.awaits(run.UID); err != nil {
			return nil, err
		}
		before := rec.Line
		if err := d.e.clearLine(ctx, rec); err != nil {
			return nil, err
		}
		line, verdict, err := rec.Line.Enter(entry, rec.lateAdmission())
		v = verdict
		if err != nil || sameLine(line, before) {
			return nil, errors.Join(err, errUnchanged)
		}
		rec.Line = line
		return nil, nil
	})
	if err != nil {
		return err
	}
	d.in.Blocked = v.WaitsFor
	if v.SupersededBy != "" {
		d.in.Commands = append(d.in.Commands, stages.Command{ID: "superseded", Verb: stages.Supersede, Message: v.SupersededBy})
	}
	return d.e.supersede(ctx, run.Name, run.UID, v.Supersedes)
}

// awaits returns why a run that has not started as far as its driver knows does
// not belong into the line: somebody else has brought it to its end, or deleted
// it.
func (rec *placementRecord) awaits(uid string) error {
	i := slices.IndexFunc(rec.Runs, func(r runEntry) bool { return r.UID == uid })
	switch {
	case i < 0:
		return fmt.Errorf("the run was deleted: %w", backend.ErrNotFound)
	case rec.Runs[i].Ended != "":
		return fmt.Errorf("run %s has ended, it is %s: %w", rec.Runs[i].Name, rec.Runs[i].Ended, backend.ErrFenced)
	}
	return nil
}

// lateAdmission is how a run that was held enters the line: it is too late to
// reject it.
func (rec *placementRecord) lateAdmission() stages.Admission {
	if rec.Placement.Admission == stages.RejectRun {
		return stages.QueueRun
	}
	return rec.Placement.Admission
}

// queueAgain lets a failed run that is started again have the placement, if
// nobody else has it or waits for it.
func (d *driver) queueAgain(ctx context.Context) error {
	entry := stages.Entry{UID: d.uid, Run: d.name, Index: d.plan.Index}
	_, err := d.e.updatePlacement(ctx, d.placement, func(rec *placementRecord) ([]stages.Event, error) {
		if err := d.e.clearLine(ctx, rec); err != nil {
			return nil, err
		}
		next := entry
		if rec.Line.Active != nil {
			next = *rec.Line.Active
		} else if len(rec.Line.Waiting) > 0 {
			next = rec.Line.Waiting[0]
		}
		if next.UID != d.uid {
			d.in.Blocked = next.Run
			return nil, errUnchanged
		}
		var err error
		rec.Line, _, err = rec.Line.Enter(entry, stages.QueueRun)
		rec.unend(d.uid)
		return nil, err
	})
	return err
}

// unend takes in that a run which had failed was started again.
func (rec *placementRecord) unend(uid string) {
	for i := range rec.Runs {
		if rec.Runs[i].UID == uid {
			rec.Runs[i].Ended = ""
		}
	}
}

func sameLine(a, b stages.Line) bool {
	return (a.Active == b.Active || a.Active != nil && b.Active != nil && *a.Active == *b.Active) &&
		slices.Equal(a.Waiting, b.Waiting) && slices.Equal(a.Superseded, b.Superseded)
}

// wait gathers what is new until there is something, or it is time to step.
func (d *driver) wait(ctx context.Context, wake time.Time) error {
	due := d.renewed.Add(d.e.cfg.Lease / 3)
	if !wake.IsZero() && (d.failed || wake.Before(due)) {
		due = wake
	}
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-d.fenced:
		return err
	case o := <-d.inbox:
		d.in.Observations = append(d.in.Observations, o)
	case <-d.poke:
		if err := d.listen(ctx); err != nil {
			time.AfterFunc(retryStore, d.nudge)
		}
	case fleet := <-d.fleet:
		d.in.Gone = d.gone(ctx, fleet)
	case <-timer.C:
	}
	d.drain()
	d.renew = d.renew || time.Since(d.renewed) >= d.e.cfg.Lease/3
	return nil
}

// drain takes every observation that has arrived.
func (d *driver) drain() {
	for range inboxSize {
		select {
		case o := <-d.inbox:
			d.in.Observations = append(d.in.Observations, o)
		default:
			return
		}
	}
}

// listen reads what operators ask of the run.
func (d *driver) listen(ctx context.Context) error {
	cs, taken, err := d.e.commands(ctx, d.uid)
	if err != nil {
		return err
	}
	if len(cs) > commandsAtOnce {
		cs = cs[:commandsAtOnce]
		d.nudge()
	}
	d.in.Commands, d.taken = cs, taken
	return nil
}

// commandsAtOnce bounds the commands that one step takes in, well under the
// number that a run remembers.
const commandsAtOnce = 16

// nudge makes the driver look at its commands and its placement.
func (d *driver) nudge() {
	select {
	case d.poke <- struct{}{}:
	default:
	}
}

// tellFleet hands the driver a changed inventory, in place of one that it has
// not looked at yet.
func (d *driver) tellFleet(fleet map[string]placement.Cluster) {
	for {
		select {
		case d.fleet <- fleet:
			return
		default:
		}
		select {
		case <-d.fleet:
		default:
		}
	}
}

// gone names the clusters of the plan that the inventory no longer has, or has
// as another cluster. What it was told may be older than the plan, so it looks
// itself before it says so.
func (d *driver) gone(ctx context.Context, fleet map[string]placement.Cluster) []string {
	if len(d.missing(fleet)) == 0 {
		return nil
	}
	now, err := d.e.inventory(ctx)
	if err != nil {
		time.AfterFunc(retryStore, func() { d.tellFleet(fleet) })
		return nil
	}
	return d.missing(now)
}

func (d *driver) missing(fleet map[string]placement.Cluster) []string {
	var out []string
	for i := range d.plan.Clusters {
		c := &d.plan.Clusters[i]
		now, ok := fleet[c.Name]
		if !ok || c.UID != "" && now.UID != "" && now.UID != c.UID {
			out = append(out, c.Name)
		}
	}
	return out
}
