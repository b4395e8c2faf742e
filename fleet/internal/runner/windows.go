package runner

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// windows follow the maintenance windows of a run.
type windows struct {
	// rules reads the rules that hold for the run.
	rules func(context.Context) (calendar.Rules, error)
	plan  *stages.Plan
	run   string
	poll  time.Duration
	// patience is how long the run waits for the first answer.
	patience time.Duration
	// wake makes the driver take a changed calendar.
	wake func()
	log  *slog.Logger

	// told has the last calendar that the driver has not taken yet.
	told      latest[stages.Calendar]
	stop      context.CancelFunc
	following sync.WaitGroup
}

// newWindows returns the windows of a run that are not followed yet.
func newWindows(e *engine, t *tenure, wake func()) *windows {
	return &windows{
		rules: func(ctx context.Context) (calendar.Rules, error) { return e.State.World.Rules(ctx, t.plan, t.uid) },
		plan:  t.plan, run: t.name, poll: e.Poll, patience: e.Lease / 5, wake: wake, log: e.Log,
		told: newLatest[stages.Calendar](), stop: func() {},
	}
}

// timetable holds the last known windows of a run.
type timetable struct {
	rules    calendar.Rules
	calendar stages.Calendar
	// known reports whether rules were valid at least once.
	known bool
}

// closed is the calendar of a run whose windows are unknown. It has no open window.
type closed struct{ reason string }

func (c closed) Window(int, time.Time) stages.Window {
	return stages.Window{Limited: true, Reason: c.reason}
}

// notKnown is the start of the reason for closed windows when the windows are unknown; the error
// follows.
const notKnown = "the maintenance windows are not known: "

// open starts to follow the windows, until cancel is called, and returns the calendar for the first
// step of the run. If the host does not answer in time, the run begins with closed windows, so that
// clusters in flight do not wait for the host.
func (w *windows) open(ctx context.Context) stages.Calendar {
	following, stop := context.WithCancel(ctx)
	w.stop = stop
	w.following.Go(func() { w.follow(following) })
	patience := time.NewTimer(w.patience)
	defer patience.Stop()
	select {
	case c := <-w.told:
		return c
	case <-patience.C:
	case <-ctx.Done():
	}
	return closed{notKnown + "the host has not answered yet"}
}

// cancel makes the following end.
func (w *windows) cancel() { w.stop() }

// wait waits until the following has ended.
func (w *windows) wait() { w.following.Wait() }

// follow tells the driver the windows at first and after each change, until ctx ends.
func (w *windows) follow(ctx context.Context) {
	var t timetable
	var why string
	pause := backoff.Poll(w.poll)
	for {
		changed, err := w.ask(ctx, &t)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.log.Warn("the windows were not told; those that were known before count, and without any no cluster is started", "run", w.run, "error", err)
			if !t.known && why != err.Error() {
				why = err.Error()
				w.tell(closed{notKnown + why})
			}
		case changed:
			pause.Reset()
			w.tell(t.calendar)
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

// ask asks the host for the windows of the run, and reports whether they have changed.
func (w *windows) ask(ctx context.Context, t *timetable) (bool, error) {
	rules, err := w.rules(ctx)
	if err != nil || t.known && reflect.DeepEqual(rules, t.rules) {
		return false, err
	}
	c, err := rules.For(w.plan)
	if err != nil {
		return false, fmt.Errorf("windows of run %s: %w", w.run, err)
	}
	*t = timetable{rules: rules, calendar: c, known: true}
	return true, nil
}

func (w *windows) tell(c stages.Calendar) {
	w.told.put(c)
	w.wake()
}
