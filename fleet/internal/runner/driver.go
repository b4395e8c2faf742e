package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/examine"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/step"
)

// inboxSize is the number of observations that a driver's inbox holds before their senders block.
const inboxSize = 256

// received is an observation that a worker sends to its driver.
type received struct {
	stages.Observation
	by *worker
}

// errDone ends a driver whose run has ended.
var errDone = errors.New("the run has ended")

// errRetake ends a driver that took its run before the run's turn came. Other runs have written to
// clusters at newer epochs since, so an engine must take the run again with a newer epoch.
var errRetake = fmt.Errorf("%w: taken again", backend.ErrFenced)

// driver carries out one run while its engine holds the lease.
type driver struct {
	e    *engine
	name string
	// placement and uid are the placement and the UID of the run.
	placement, uid string
	// epoch is the epoch of the lease.
	epoch int64
	rec   *record.Run
	rev   backend.Revision
	plan  *stages.Plan
	// coOwnership, exclusive and deletePolicy are the placement's settings when the driver began.
	coOwnership  bool
	exclusive    bool
	deletePolicy placement.DeletePolicy
	secretKey    []byte
	// admitted reports whether the placement knows the run.
	admitted bool
	// first is the placement's record from when the run was taken; nil after the first turn.
	first *record.Placement
	// commanded reports whether the run has received a command since it was taken.
	commanded bool
	// wasEnded reports whether the run had ended before it was taken, ready whether the driver can
	// step it.
	wasEnded, ready bool
	// over signals callers that wait for the run's end that this engine no longer drives it. stop
	// ends the watches that the driver started. wake schedules another turn.
	over  func()
	stop  context.CancelFunc
	wake  func()
	pages record.InFlightPages
	share capShare

	// in is the unsaved input of the next step; taken are the records of its commands.
	in    stages.Input
	taken []commands.Stored
	// tried are the saves with an unknown outcome, by their number: a failed save may still take
	// effect later.
	tried map[int]attempt
	// renew reports whether the lease must be saved, unsure whether the outcome of the last save is
	// unknown.
	renew, unsure bool
	// renewed is the time of the last renewal of the lease, by a save or by the engine's session.
	// leased is the start of the lease in the record.
	renewed, leased time.Time
	// beat is the time when the driver last finished a turn without an error, initially when it
	// took the run.
	beat atomic.Pointer[time.Time]
	// saves are the durations of the last saves, savings is the number of all saves.
	saves   [4]time.Duration
	savings int

	// deleted reports whether a watch saw the deletion of the run's record, asked whether there may
	// be unread commands.
	deleted, asked atomic.Bool
	// yields reports whether the run must be released so that another engine can take it. inFlight
	// is the number of clusters in flight.
	yields   atomic.Bool
	inFlight atomic.Int64
	// told is the last revision of the run that a watch reported. wrote are the last revisions that
	// the driver wrote.
	told    atomic.Value
	wrote   [8]backend.Revision
	inbox   chan received
	fenced  chan error
	workers map[int]*worker
	asking  map[string]*inquiry
	meter   *meter
	// objects applies the check objects of the run; nil if the plan has none.
	objects *examine.Run
	asks    sync.WaitGroup
	round   int
	// fleet holds the inventory if it has changed since the last turn.
	fleet chan map[string]placement.Cluster
	// calendars holds the clusters' windows if they have changed since the last turn.
	calendars chan stages.Calendar
	// calendar is the number of calendars that the input has had.
	calendar int
}

// attempt is an attempt to save. It counts the observations, measurements and calendars in the
// input of the save. If the save succeeds, drops are superfluous.
type attempt struct {
	observations int
	measured     int
	calendar     int
	began        time.Time
	drops        []backend.Write
}

func newDriver(e *engine, rec *record.Run, rev backend.Revision, plan *stages.Plan) *driver {
	d := &driver{
		e: e, name: rec.Run.Name, placement: rec.Run.Placement, uid: rec.Run.UID, epoch: rec.Lease.Epoch, rec: rec, rev: rev, plan: plan,
		pages:   record.InFlightPages{Store: e.store, UID: rec.Run.UID},
		renewed: time.Now(), wasEnded: rec.Run.IsEnded(), over: func() {}, stop: func() {}, wake: func() {},
		in:      stages.Input{Unwatched: true},
		inbox:   make(chan received, inboxSize),
		fenced:  make(chan error, 1),
		workers: map[int]*worker{},
		asking:  map[string]*inquiry{},
		fleet:   make(chan map[string]placement.Cluster, 1), calendars: make(chan stages.Calendar, 1),
	}
	d.meter = &meter{
		subject:   check.Subject{Run: d.name, Placement: d.placement},
		providers: e.cfg.Metrics, guard: e.metrics, room: e.measuring, clock: e.cfg.Clock, inventory: e.state.Inventory,
		wake: func() { d.wake() }, asked: map[check.Where]bool{}, rounds: map[int]context.CancelFunc{},
	}
	if plan != nil {
		d.share.name = plan.Strategy.Cap
		d.meter.subject.Snapshot = plan.Index
		d.pages.None = len(plan.Clusters) <= min(record.InFlightHere, record.ListHere)
	}
	d.share.stale.Store(true)
	taken := d.renewed
	d.beat.Store(&taken)
	d.wrote[rec.Seq%int64(len(d.wrote))] = rev
	return d
}

// reconcile gathers new input and steps the run. It returns the time until the next step is due.
// The error is errDone once the run has ended; isRetried reports whether reconcile should be called
// again after another error.
func (d *driver) reconcile(ctx context.Context) (after time.Duration, err error) {
	if !d.ready {
		if err := d.prepare(ctx); err != nil {
			return 0, err
		}
		d.ready = true
		ctx, d.stop = context.WithCancel(ctx)
		d.openWindows(ctx)
		d.examines()
	}
	if err := d.gather(ctx); err != nil {
		return 0, err
	}
	wake, err := d.turn(ctx)
	if err != nil {
		return 0, err
	}
	now := time.Now()
	d.beat.Store(&now)
	due := d.renewed.Add(d.e.cfg.Lease / 3)
	if !wake.IsZero() && wake.Before(due) {
		due = wake
	}
	return max(time.Until(due), 1), nil
}

// end ends everything that the driver has started.
func (d *driver) end() {
	d.stop()
	d.endWorkers()
	d.over()
}

// prepare reads the clusters in flight. If a crash kept the run from being admitted, prepare admits
// it.
func (d *driver) prepare(ctx context.Context) (err error) {
	if err = d.pages.Read(ctx, d.rec); state.IsNotFound(err) {
		return record.Damaged(record.RunKey(d.name), errors.New(err.Error()))
	}
	if err != nil {
		return err
	}
	if err := d.rec.Check(d.plan); err != nil {
		return err
	}
	if d.rec.Run.Started != 0 { // otherwise nothing was in flight
		if err := d.pages.Sweep(ctx, d.rec.Lease.Epoch-1, d.rec.InFlight.Names()); err != nil {
			return err
		}
	}
	if err := d.listen(ctx); err != nil {
		return err
	}
	if d.rec.Run.IsEnded() || d.admitted {
		return nil
	}
	err = d.e.admission.Admit(ctx, d.rec, &planning.Draft{Plan: d.plan, Partial: true})
	if rejected := (*stages.RejectedError)(nil); errors.As(err, &rejected) || errors.Is(err, errdef.ErrDeleting) || errors.Is(err, state.ErrOutdated) {
		return errors.Join(backend.ErrNotFound, d.e.admission.Withdraw(ctx, d.rec, err))
	}
	if errors.Is(err, state.ErrIncomplete) {
		return d.e.state.Abandon(ctx, d.rec, err)
	}
	return err
}

// turn steps the run once: decide, save, act. It returns the time of the next step that the run
// requests.
func (d *driver) turn(ctx context.Context) (time.Time, error) {
	if err := d.resolve(ctx); err != nil {
		return time.Time{}, err
	}
	if err := d.queue(ctx); err != nil {
		return time.Time{}, err
	}
	if err := d.readCap(ctx); err != nil {
		return time.Time{}, err
	}
	d.in.Now, d.in.Slots, d.in.Answers = d.e.cfg.Clock(), d.slots(), d.answers()
	ready := step.Step(d.plan, d.rec.Run, d.in)
	if ready.Err != nil {
		return time.Time{}, record.Damaged(record.RunKey(d.name), ready.Err)
	}
	if err := d.save(ctx, &ready); err != nil {
		return time.Time{}, err
	}
	d.act(ctx, ready.Actions)
	if d.rec.Run.IsEnded() {
		return time.Time{}, d.finish(ctx)
	}
	if err := d.claimCap(ctx, ready.Wants); err != nil {
		return time.Time{}, err
	}
	return d.e.state.Here(ready.Wake), nil
}

// save commits the outcome of a step.
func (d *driver) save(ctx context.Context, ready *step.Ready) error {
	if !ready.Changed && !d.renew {
		record.Discard(ctx, d.e.store, d.processedDrops(&d.rec.Run))
		d.consumed(attempt{observations: len(d.in.Observations), measured: len(d.in.Measured), calendar: d.calendar})
		return nil
	}
	next, c := d.compose(ready)
	began := time.Now()
	rev, err := c.Write(ctx, d.e.store)
	d.saves[d.savings%len(d.saves)] = time.Since(began)
	d.savings++
	if err != nil {
		d.unsure = true
		return fmt.Errorf("run %s: %w", d.name, err)
	}
	d.pages.Commit(c, next.InFlight, next.Run.Form(runstate.Key{}).InFlight)
	d.saved(next, rev)
	return nil
}

// compose returns the next record and its commit. The commit writes the pages that the record
// refers to. It deletes the processed commands and the pages that the record no longer needs.
func (d *driver) compose(ready *step.Ready) (next *record.Run, c *record.Commit) {
	next, c = new(record.Run), new(record.Commit)
	*next = *d.rec
	next.Run = ready.Run
	next.Seq++
	next.Lease.Until = stages.At(d.e.cfg.Clock()).Add(d.e.cfg.Lease)
	next.InFlight = d.pages.Write(c, next.Lease.Epoch, next.Seq, &ready.Run)
	next.Try = d.pages.Tries
	next.Journal = d.rec.Journal.Append(c, d.uid, ready.Events)
	c.Record = backend.Write{Key: record.RunKey(d.name), Value: next.Encode(), Prev: d.rev}
	c.Drops = append(c.Drops, d.processedDrops(&next.Run)...)
	if d.tried == nil {
		d.tried = map[int]attempt{}
	}
	d.tried[next.Try] = attempt{len(d.in.Observations), len(d.in.Measured), d.calendar, time.Now(), c.Drops}
	return next, c
}

// saved updates the driver after its record was committed.
func (d *driver) saved(next *record.Run, rev backend.Revision) {
	d.rec, d.rev = next, rev
	d.wrote[next.Seq%int64(len(d.wrote))] = rev
	d.inFlight.Store(int64(len(next.Run.Form(runstate.Key{}).InFlight)))
	d.renew, d.renewed = false, time.Now()
	took := d.tried[next.Try]
	d.leased = took.began
	d.tried = nil
	d.consumed(took)
}

// processedDrops returns the deletions of the commands that a run has processed. If a deletion
// fails, the run recognizes the command by its ID when it is read again.
func (d *driver) processedDrops(run *step.Run) (out []backend.Write) {
	for _, t := range d.taken {
		if hasProcessed(run, t.ID) {
			out = append(out, record.Delete(t.Key, t.Revision))
		}
	}
	return out
}

// consumed removes the saved part from the input: the first observations and measurements, and the
// processed commands. A calendar that came after the save began is still new.
func (d *driver) consumed(took attempt) {
	run := &d.rec.Run
	d.in.Observations = slices.Clone(d.in.Observations[took.observations:])
	d.in.Measured = slices.Clone(d.in.Measured[took.measured:])
	d.in.Unwatched, d.in.NewCalendar = false, d.in.NewCalendar && took.calendar != d.calendar
	d.in.Commands = slices.DeleteFunc(d.in.Commands, func(c stages.Command) bool { return hasProcessed(run, c.ID) })
	d.taken = slices.DeleteFunc(d.taken, func(t commands.Stored) bool { return hasProcessed(run, t.ID) })
}

// resolve finds out the outcome of a failed save. No other engine writes the record under this
// driver's epoch, so a record with a higher sequence number is this driver's.
func (d *driver) resolve(ctx context.Context) error {
	if !d.unsure {
		return nil
	}
	rec, rev, err := d.e.state.Run(ctx, d.name)
	if err != nil {
		return err
	}
	if rec.Run.UID != d.rec.Run.UID || rec.Lease.Epoch != d.rec.Lease.Epoch {
		return fmt.Errorf("run %s: %w: %s has it at epoch %d, this engine had it at %d", d.name, backend.ErrFenced, rec.Lease.Holder, rec.Lease.Epoch, d.rec.Lease.Epoch)
	}
	pages := record.InFlightPages{Store: d.e.store, UID: rec.Run.UID, None: d.pages.None, Tries: d.pages.Tries}
	if err = pages.Read(ctx, rec); state.IsNotFound(err) {
		return fmt.Errorf("another writer saved run %s: %w: %s", d.name, backend.ErrConflict, err.Error())
	}
	if err != nil {
		return err
	}
	if err := rec.Check(d.plan); err != nil {
		return err
	}
	d.unsure = false
	if rec.Seq > d.rec.Seq {
		d.pages = pages
		record.Discard(ctx, d.e.store, d.tried[rec.Try].drops)
		d.saved(rec, rev)
	}
	d.rev = rev
	return nil
}

// letGo deletes the pages that this driver wrote and that the run's current engine does not refer
// to.
func (d *driver) letGo(ctx context.Context) {
	rec, _, err := d.e.state.Run(ctx, d.name)
	switch {
	case state.IsNotFound(err) || err == nil && rec.Run.UID != d.uid:
		_ = d.pages.Sweep(ctx, d.epoch, nil)
		if d.share.name != "" {
			_ = d.e.caps.Leave(ctx, d.share.name, d.uid, d.epoch)
		}
	case err == nil && rec.Lease.Epoch > d.epoch:
		_ = d.pages.Sweep(ctx, d.epoch, rec.InFlight.Names())
	}
}

// holdsLease reports whether the store still names this driver's epoch for the run.
func (d *driver) holdsLease(ctx context.Context) (bool, error) {
	rec, _, err := d.e.state.Run(ctx, d.name)
	if state.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return rec.Run.UID == d.uid && rec.Lease.Epoch == d.epoch, nil
}
