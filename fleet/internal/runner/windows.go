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

// timetable is what the windows of a run were last known to be.
type timetable struct {
	rules    calendar.Rules
	calendar stages.Calendar
	// known reports whether rules were valid at least once.
	known bool
}

// closed is the calendar of a run of which the windows are not known.
type closed struct{ reason string }

func (c closed) Window(int, time.Time) stages.Window {
	return stages.Window{Limited: true, Reason: c.reason}
}

// openWindows makes the calendar of the run ready for its first step, and has it
// followed. The clusters in flight do not wait for long for a host that does not
// answer.
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

// notKnown begins the reason of the clusters of a run of which the windows are not
// known; why follows.
const notKnown = "the maintenance windows are not known: "

// followWindows tells the driver the windows, and then when they have changed,
// until ctx ends.
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

// askWindows asks for the windows of the run, and reports whether they are others
// than before.
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

// tellWindows hands the driver a calendar, in place of one that it has not looked
// at yet.
func (d *driver) tellWindows(c stages.Calendar) {
	select {
	case <-d.calendars:
	default:
	}
	d.calendars <- c
	d.wake()
}
