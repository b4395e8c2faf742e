package runner

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

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

// openWindows sets the calendar for the first step of the run, and starts to follow its changes. If
// the host does not answer within a fifth of the lease, the run begins with closed windows, so that
// clusters in flight do not wait for the host.
func (d *driver) openWindows(ctx context.Context) {
	if d.e.cfg.Windows == nil || d.rec.Final != "" {
		return
	}
	d.asks.Go(func() { d.followWindows(ctx) })
	d.in.Calendar, d.in.NewCalendar = closed{notKnown + "the host has not answered yet"}, true
	patience := time.NewTimer(d.e.cfg.Lease / 5)
	defer patience.Stop()
	select {
	case d.in.Calendar = <-d.calendars:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// notKnown is the start of the reason for closed windows when the windows are unknown; the error
// follows.
const notKnown = "the maintenance windows are not known: "

// followWindows passes the windows to the driver at first and after each change, until ctx ends.
func (d *driver) followWindows(ctx context.Context) {
	var t timetable
	var why string
	pause := backoff.Poll(d.e.cfg.Poll)
	for {
		changed, err := d.askWindows(ctx, &t)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.e.log.Warn("the windows were not told; those that were known before count, and without any no cluster is started", "run", d.name, "error", err)
			if !t.known && why != err.Error() {
				why = err.Error()
				d.tellWindows(closed{notKnown + why})
			}
		case changed:
			pause.Reset()
			d.tellWindows(t.calendar)
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

// askWindows asks the host for the windows of the run, and reports whether they have changed.
func (d *driver) askWindows(ctx context.Context, t *timetable) (bool, error) {
	rules, err := d.e.state.RulesOf(ctx, d.plan, d.uid)
	if err != nil || t.known && reflect.DeepEqual(rules, t.rules) {
		return false, err
	}
	c, err := rules.For(d.plan)
	if err != nil {
		return false, fmt.Errorf("windows of run %s: %w", d.name, err)
	}
	*t = timetable{rules: rules, calendar: c, known: true}
	return true, nil
}

// tellWindows hands the driver a calendar. It replaces a calendar that the driver has not read yet.
func (d *driver) tellWindows(c stages.Calendar) {
	select {
	case <-d.calendars:
	default:
	}
	d.calendars <- c
	d.wake()
}
