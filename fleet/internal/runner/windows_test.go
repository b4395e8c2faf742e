package runner

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// A calendar may arrive between a save with an unknown outcome and the read that resolves the
// outcome. It is still new after that, because the saved step did not have it.
func TestACalendarThatComesWhileASaveIsUnsureStaysNew(t *testing.T) {
	d := newDriver(&engine{cfg: Options{Lease: time.Hour}}, &record.Run{}, "", &stages.Plan{})
	d.in.Calendar, d.in.NewCalendar = closed{"not known"}, true
	began := attempt{calendar: d.calendar}
	d.calendars <- closed{"another one"}
	if err := d.gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.consumed(began)
	if !d.in.NewCalendar || d.in.Calendar != (closed{"another one"}) {
		t.Errorf("the calendar is %v, new: %v, want the other one, which no step has used", d.in.Calendar, d.in.NewCalendar)
	}
	d.consumed(attempt{calendar: d.calendar})
	if d.in.NewCalendar {
		t.Error("the calendar is new after a step that had it was saved")
	}
}
