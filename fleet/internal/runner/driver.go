package runner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/step"
)

// errDone ends a driver whose run has ended.
var errDone = errors.New("the run has ended")

// driver carries out one run while its engine holds the lease. One goroutine at a time uses it, and
// others reach it through signals and through the parts whose methods say so.
//
// The parts do not know the driver or one another. A turn goes through them from top to bottom.
type driver struct {
	e *engine
	tenure
	// ready reports whether the driver can step the run.
	ready bool
	signals
	lease    *lease
	input    *input
	recorder *recorder

	queue     *queuer
	share     *capShare
	windows   *windows
	inventory *inventory

	workers   *workers
	inquiries *inquiries
	measures  *measures
}

// signals are the messages of other goroutines to a driver.
type signals struct {
	// wake schedules another turn.
	wake func()
	// deleted reports whether a watch saw the deletion of the run's record.
	deleted atomic.Bool
	mail    mail
}

// wakeUp makes the driver read all of its commands and take another turn.
func (s *signals) wakeUp() {
	s.mail.addAll()
	s.wake()
}

// taken is a run that an engine has taken: its record, plan and placement.
type taken struct {
	rec  *record.Run
	rev  backend.Revision
	plan *stages.Plan
	// placement is the record of the placement when the run was taken.
	placement *record.Placement
	// began is the time when the save of the lease began.
	began time.Time
	// over and wake are the functions of the driver.
	over, wake func()
}

func newDriver(e *engine, r taken) *driver {
	d := &driver{e: e, tenure: newTenure(r.rec, r.plan, r.over), signals: signals{wake: r.wake}}
	t := &d.tenure
	d.lease = newLease(record.RunKey(t.name), e.Lease, e.session, r.began)
	d.input = newInput()
	d.recorder = newRecorder(e, t.plan, r.rec, r.rev)
	d.queue = newQueuer(e, t, r.placement)
	d.share = newCapShare(e, t)
	d.windows = newWindows(e, t, d.wake)
	d.inventory = newInventory(e, t.plan, d.wake)
	d.workers = newWorkers(e, t, r.rec, r.placement, d.wake)
	d.inquiries = newInquiries(e, t.plan, d.wakeUp)
	d.measures = newMeasures(e, t, r.rec, r.placement, d.wake)
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
		d.open(ctx)
	}
	if err := d.gather(ctx); err != nil {
		return 0, err
	}
	wake, err := d.turn(ctx)
	if err != nil {
		return 0, err
	}
	d.lease.turned()
	due := d.lease.next()
	if !wake.IsZero() && wake.Before(due) {
		due = wake
	}
	return max(time.Until(due), 1), nil
}

// prepare reads the clusters in flight and the commands. If a crash kept the run from being
// admitted, prepare admits it.
func (d *driver) prepare(ctx context.Context) (err error) {
	if err := d.recorder.open(ctx); err != nil {
		return err
	}
	d.mail.addAll()
	if err := d.listen(ctx); err != nil {
		return err
	}
	rec := d.recorder.rec
	if rec.Run.IsEnded() || d.queue.knows() {
		return nil
	}
	err = d.e.Admission.Admit(ctx, rec, &planning.Draft{Plan: d.plan, Partial: true})
	if rejected := (*stages.RejectedError)(nil); errors.As(err, &rejected) || errors.Is(err, errdef.ErrDeleting) || errors.Is(err, state.ErrOutdated) {
		return errors.Join(backend.ErrNotFound, d.e.Admission.Withdraw(ctx, rec, err))
	}
	if errors.Is(err, state.ErrIncomplete) {
		return d.e.State.Abandon(ctx, rec, err)
	}
	return err
}

// open starts to follow the windows of the run and to apply its check objects. The run that cleans
// the clusters of a placement has no windows.
func (d *driver) open(ctx context.Context) {
	if d.e.Windows != nil && d.recorder.rec.Final == "" {
		d.input.setCalendar(d.windows.open(ctx))
	}
	d.measures.open()
}

// gather adds everything new since the last step to the input.
func (d *driver) gather(ctx context.Context) error {
	if err := d.workers.lost(); err != nil {
		return err
	}
	if d.deleted.Load() {
		if held, err := d.e.holdsLease(ctx, &d.tenure); err == nil && !held {
			return fmt.Errorf("run %s was deleted: %w", d.name, backend.ErrNotFound)
		}
	}
	if err := d.listen(ctx); err != nil {
		d.mail.addAll()
		return err
	}
	if gone, isNew := d.inventory.gone(ctx); isNew {
		d.input.Gone = gone
	}
	if c, isNew := d.windows.told.take(); isNew {
		d.input.setCalendar(c)
	}
	d.input.Measured = append(d.input.Measured, d.measures.meter.taken()...)
	// A quarter of the clusters in flight is worth a save.
	enough := len(d.form().InFlight)/4 - len(d.input.Observations)
	d.input.Observations = append(d.input.Observations, d.workers.observations(ctx, d.recorder.pace.batch(), enough)...)
	d.lease.check(d.recorder.own.last())
	return nil
}

// listen reads the unread commands of operators for the run.
func (d *driver) listen(ctx context.Context) error {
	keys, all := d.mail.take()
	if len(keys)+len(d.input.Commands) > commandsAtOnce {
		all = true
	}
	switch {
	case all:
		cs, stored, err := d.e.Commands.List(ctx, d.uid)
		if err != nil {
			return err
		}
		if d.input.setCommands(cs, stored, d.recorder.run()) {
			d.wakeUp()
		}
	case len(keys) > 0:
		cs, stored, err := d.e.Commands.Read(ctx, keys)
		if err != nil {
			return err
		}
		d.input.addCommands(cs, stored, d.recorder.run())
	}
	return nil
}

// turn steps the run once: decide, save, act. It returns the time of the next step that the run
// requests.
func (d *driver) turn(ctx context.Context) (time.Time, error) {
	if err := d.resolve(ctx); err != nil {
		return time.Time{}, err
	}
	if err := d.askTurn(ctx); err != nil {
		return time.Time{}, err
	}
	if err := d.share.read(ctx); err != nil {
		return time.Time{}, err
	}
	run := d.recorder.run()
	d.input.Now, d.input.Slots, d.input.Answers = d.e.Clock(), d.share.slots(run), d.inquiries.answers(run.Now.Time())
	ready := step.Step(d.plan, *run, d.input.Input)
	if ready.Err != nil {
		return time.Time{}, record.Damaged(record.RunKey(d.name), ready.Err)
	}
	if err := d.save(ctx, &ready); err != nil {
		return time.Time{}, err
	}
	d.act(ctx, ready.Actions)
	if d.recorder.run().IsEnded() {
		return time.Time{}, d.finish(ctx)
	}
	if err := d.claim(ctx, ready.Wants); err != nil {
		return time.Time{}, err
	}
	return d.e.State.Here(ready.Wake), nil
}

// resolve finds out the outcome of a failed save.
func (d *driver) resolve(ctx context.Context) error {
	took, err := d.recorder.resolve(ctx)
	if err == nil && took != nil {
		d.saved(*took)
	}
	return err
}

// askTurn sets in.Blocked to the run that is ahead, and adds a Supersede command if another run has
// superseded this run.
func (d *driver) askTurn(ctx context.Context) error {
	ahead, by, err := d.queue.turn(ctx, d.recorder.run(), d.input.Commands)
	if err != nil {
		return err
	}
	d.input.Blocked = ahead
	if by != "" {
		d.input.Commands = append(d.input.Commands, stages.Command{ID: record.OwnID + "superseded", Verb: stages.Supersede, Message: by})
	}
	return nil
}

// save commits the outcome of a step.
func (d *driver) save(ctx context.Context, ready *step.Ready) error {
	if !ready.Changed && !d.lease.due {
		run := d.recorder.run()
		record.Discard(ctx, d.e.Store, d.input.drops(run))
		d.input.consumed(d.input.mark(), run)
		return nil
	}
	took, err := d.recorder.save(ctx, ready, d.input.mark(), d.input.drops(&ready.Run))
	if err != nil {
		return err
	}
	d.saved(took)
	return nil
}

// saved updates the lease and the input after an attempt to save has succeeded.
func (d *driver) saved(took attempt) {
	d.lease.saved(took.began)
	d.input.consumed(took.mark, d.recorder.run())
}

// act reconciles workers, inquiries and measurements with the run's actions: it starts missing
// ones, keeps wanted ones and ends the rest.
func (d *driver) act(ctx context.Context, actions []stages.Action) {
	var updates []*stages.Action
	var requests []*approval.Request
	var questions []*check.Question
	for i := range actions {
		switch a := &actions[i]; a.Type {
		case stages.Ask:
			requests = append(requests, a.Request)
		case stages.Measure:
			questions = append(questions, a.Measure)
		default:
			updates = append(updates, a)
		}
	}
	d.workers.reconcile(ctx, updates)
	d.inquiries.reconcile(ctx, requests)
	d.measures.reconcile(ctx, d.recorder.run().Now.Time(), d.form().Stage, questions)
}

// claim updates the run's claim to its cap.
func (d *driver) claim(ctx context.Context, wants int) error {
	given, err := d.share.claim(ctx, d.recorder.run(), wants)
	if given {
		d.wakeUp()
	}
	return err
}

// finish records the result of a run with its placement, which dequeues the run. It then leaves the
// cap and deletes unreferenced pages. It releases the lease last, because until then another engine
// repeats failed steps. It is idempotent.
func (d *driver) finish(ctx context.Context) error {
	d.workers.cancel()
	st, last := d.e.State, d.recorder.rec
	rec, out, err := st.Decide(ctx, d.placement, &state.Transition{Input: state.Always(lifecycle.RunEnded{
		Entry: d.queue.entry, Epoch: d.epoch, Result: *st.ResultOf(last, d.plan),
	})})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return err // ErrNotFound: the placement was deleted, so there is nothing to record
	}
	if err := d.share.leave(ctx); err != nil {
		return err
	}
	if err := d.recorder.sweep(ctx, last.InFlight.Names()); err != nil {
		return err
	}
	if err := d.recorder.release(ctx); err != nil {
		return err
	}
	if rec != nil {
		if err := st.CarryOut(ctx, rec, out.After); err != nil {
			return err
		}
	}
	return errDone
}

// end ends everything that the driver has started.
func (d *driver) end() {
	d.windows.cancel()
	d.workers.cancel()
	d.inquiries.cancel()
	d.workers.wait()
	d.inquiries.wait()
	d.windows.wait()
	d.measures.end()
	d.over()
}

// giveBack releases the lease of a run that its engine stops driving.
func (d *driver) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, d.e.CallTimeout)
	defer cancel()
	d.recorder.giveBack(ctx)
}

// letGo deletes the pages that this driver wrote and that the run's current engine does not refer
// to.
func (d *driver) letGo(ctx context.Context) {
	rec, _, err := d.e.State.Run(ctx, d.name)
	switch {
	case state.IsNotFound(err) || err == nil && rec.Run.UID != d.uid:
		_ = d.recorder.sweep(ctx, nil)
		_ = d.share.leave(ctx)
	case err == nil && rec.Lease.Epoch > d.epoch:
		_ = d.recorder.sweep(ctx, rec.InFlight.Names())
	}
}

// form returns the inner state of the run.
func (d *driver) form() *runstate.Form { return d.recorder.run().Form(runstate.Key{}) }
