package calendar

import (
	"fmt"
	"slices"
	"time"

	"github.com/teambition/rrule-go"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	day         = 24 * time.Hour
	maxDuration = 366 * day
	// firstYear is the first year of rules, lastYear the last year of evaluations.
	firstYear, lastYear = 1970, 9000
	// maxCountYears is the number of years after its start in which a rule with COUNT may occur.
	maxCountYears = 400
)

// span is a time from one instant up to, but not including, another.
type span struct{ from, to time.Time }

// source yields spans in ascending order.
type source interface {
	// spans returns an iterator over all spans that end after t, and perhaps some that end before.
	spans(t time.Time) func() (span, bool)
	// perDay returns the greatest number of spans that begin in a day.
	perDay() int
	// dense reports whether there may be too many spans to iterate over each.
	dense() bool
	// repeats returns how a dense source continues from t, up to end.
	repeats(t, end time.Time, sc scope) repetition
}

// once is a source of one span.
type once span

func (o once) perDay() int { return 0 }

func (o once) dense() bool { return false }

func (o once) repeats(time.Time, time.Time, scope) repetition { return repetition{} }

func (o once) spans(time.Time) func() (span, bool) {
	left := 1
	return func() (span, bool) {
		left--
		return span(o), left == 0
	}
}

// rule is a source of the spans that begin by a recurrence rule. It is immutable.
type rule struct {
	// opt has all its parts set, in wall time, and neither a start nor an end.
	opt rrule.ROption
	// start is a wall time.
	start time.Time
	// counted are all occurrences of a rule with COUNT, in wall time.
	counted []time.Time
	// until is the latest start of a span, zero for none.
	until    time.Time
	duration time.Duration
	loc      *time.Location
}

// recurrence has the common fields of a window and a recurring freeze.
type recurrence struct {
	text, start string
	duration    time.Duration
}

// compile returns the rule of r, or its problems, with paths relative to r.
func (r recurrence) compile(loc *time.Location) (*rule, field.ErrorList) {
	errs := r.checkDuration()
	start, err := r.begin()
	if err != nil {
		errs = append(errs, err)
	}
	if r.text == "" {
		return nil, append(errs, field.Required(field.NewPath("rrule"), "for example FREQ=DAILY;BYHOUR=2"))
	}
	p := parse(r.text)
	if len(p.wrong) == 0 {
		p.fit(start)
	}
	if len(errs) > 0 || len(p.wrong) > 0 {
		return nil, append(errs, r.invalid(p.wrong)...)
	}
	return r.build(p, start, loc)
}

func (r recurrence) invalid(wrong []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range wrong {
		errs = append(errs, field.Invalid(field.NewPath("rrule"), r.text, msg))
	}
	return errs
}

func (r recurrence) checkDuration() field.ErrorList {
	if r.duration > 0 && r.duration <= maxDuration {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("duration"), r.duration.String(), "must be more than 0 and at most 8784h (366 days), for example 2h")}
}

// begin returns the start as a wall time, zero if there is none.
func (r recurrence) begin() (time.Time, *field.Error) {
	if r.start == "" {
		return time.Time{}, nil
	}
	start, ok := parseLocal(r.start)
	if !ok || start.Year() < firstYear || start.Year() > lastYear {
		const right = "must be a local time from 1970 to 9000, for example 2026-01-05T02:00"
		return time.Time{}, field.Invalid(field.NewPath("start"), r.start, right)
	}
	return start, nil
}

// build makes the rule, and checks that it occurs and pauses.
func (r recurrence) build(p *parser, start time.Time, loc *time.Location) (*rule, field.ErrorList) {
	made := &rule{opt: p.opt, start: start, duration: r.duration, loc: loc}
	if start.IsZero() {
		made.start = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	switch {
	case p.utc:
		made.until = p.until
	case p.has("UNTIL"):
		made.until = instant(p.until, loc)
	}
	made.opt.Count = 0 // the library would count from the start of its evaluation
	if !made.occurs() {
		return nil, r.invalid([]string{"never occurs"})
	}
	made.counted = take(made.starts(made.start, made.start.AddDate(maxCountYears, 0, 0)), p.opt.Count)
	first, ok := made.starts(made.start, endless())()
	if !ok {
		return nil, r.invalid([]string{"never occurs from its start on"})
	}
	if at := instant(first, loc); !made.until.IsZero() && at.After(made.until) {
		return nil, r.invalid([]string{"ends before it occurs for the first time, which is at " + at.Format(time.RFC3339)})
	}
	if msg := p.tooLong(r.duration); msg != "" {
		return nil, field.ErrorList{field.Invalid(field.NewPath("duration"), r.duration.String(), msg)}
	}
	return made, nil
}

// tooLong returns why a duration is too long for the rule, or "". Long spans of an hourly or
// minutely rule overlap: a year of them would be the union of half a million.
func (p *parser) tooLong(d time.Duration) string {
	if period := p.period(); period > 0 {
		if d > period {
			return "is longer than the " + period.String() + " from one start to the next, so that there would be no pause"
		}
		return ""
	}
	unit := time.Minute
	if p.opt.Freq == rrule.HOURLY {
		unit = time.Hour
	}
	if most := max(day, time.Duration(p.opt.Interval)*unit); p.opt.Freq >= rrule.HOURLY && d > most {
		return fmt.Sprintf("is longer than the %s that a time with FREQ=%s and INTERVAL=%d lasts at most: use FREQ=DAILY", most, p.opt.Freq, p.opt.Interval)
	}
	return ""
}

// period returns the time between two occurrences of a rule that has one in each period, or 0.
func (p *parser) period() time.Duration {
	n := time.Duration(p.opt.Interval)
	switch {
	case p.opt.Freq == rrule.WEEKLY && !p.has("BYMONTH", "BYSETPOS"):
		return n * 7 * day
	case p.opt.Freq < rrule.DAILY || p.has("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY", "BYSETPOS"):
		return 0
	case p.opt.Freq == rrule.DAILY:
		return n * day
	case p.opt.Freq == rrule.HOURLY && !p.has("BYHOUR"):
		return n * time.Hour
	case p.opt.Freq == rrule.MINUTELY && !p.has("BYHOUR", "BYMINUTE"):
		return n * time.Minute
	}
	return 0
}

// take returns the next n items of an iterator, nil if n is 0.
func take(next func() (time.Time, bool), n int) []time.Time {
	var list []time.Time
	for range n {
		t, ok := next()
		if !ok {
			break
		}
		list = append(list, t)
	}
	return list
}

func (r *rule) perDay() int {
	switch r.opt.Freq {
	case rrule.MINUTELY:
		return 24*60/r.opt.Interval + 1
	case rrule.HOURLY:
		return (24/r.opt.Interval + 1) * len(r.opt.Byminute)
	default:
		return len(r.opt.Byhour) * len(r.opt.Byminute)
	}
}

func (r *rule) spans(t time.Time) func() (span, bool) {
	// If the clocks of the zone did not change recently, a span that began more than its duration
	// before t has ended. Clocks never change by more than a day.
	back := r.duration
	if set, _ := t.In(r.loc).ZoneBounds(); !set.IsZero() && t.Sub(set) < r.duration+2*day {
		back += 2 * day
	}
	begin := wallClock(t, r.loc).Add(-back)
	next := r.starts(begin, begin.Add(back+aheadFew+2*day))
	return func() (span, bool) {
		wall, ok := next()
		if !ok {
			return span{}, false
		}
		from := instant(wall, r.loc)
		if !r.until.IsZero() && from.After(r.until) {
			return span{}, false
		}
		return span{from, from.Add(r.duration)}, true
	}
}

// endless returns a time after every evaluated one.
func endless() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// starts returns an iterator over the occurrences from a wall time on, up to end. Without an end
// the library would search through all years.
func (r *rule) starts(wall, end time.Time) func() (time.Time, bool) {
	if r.counted != nil {
		i, _ := slices.BinarySearchFunc(r.counted, wall, time.Time.Compare)
		return each(r.counted[i:])
	}
	if wall.Before(r.start) {
		wall = r.start
	}
	if wall.Year() > lastYear {
		return each(nil)
	}
	opt := r.opt
	opt.Dtstart, opt.Until = r.anchor(wall), end
	found, err := rrule.NewRRule(opt)
	if err != nil {
		return each(nil) // its numbers were checked
	}
	next := found.Iterator()
	return func() (time.Time, bool) {
		for {
			t, ok := next()
			if !ok || !t.Before(wall) {
				return t, ok
			}
		}
	}
}

// occurs reports whether any period has an occurrence. Years repeat after 400, and the library
// stops at the end of 9999.
func (r *rule) occurs() bool {
	opt := r.opt
	opt.Interval, opt.Dtstart = 1, time.Date(9600, 1, 1, 0, 0, 0, 0, time.UTC)
	if opt.Freq > rrule.DAILY {
		opt.Freq, opt.Byhour, opt.Byminute = rrule.DAILY, []int{0}, []int{0}
	}
	found, err := rrule.NewRRule(opt)
	if err != nil {
		return false
	}
	_, ok := found.Iterator()()
	return ok
}

func each(list []time.Time) func() (time.Time, bool) {
	i := -1
	return func() (time.Time, bool) {
		if i++; i >= len(list) {
			return time.Time{}, false
		}
		return list[i], true
	}
}

// anchor returns the beginning of the rule's period that contains a wall time, or of the latest
// counting period if there is an interval. The library evaluates from there, instead of from the
// start of the rule.
func (r *rule) anchor(wall time.Time) time.Time {
	n := r.opt.Interval
	switch r.opt.Freq {
	case rrule.YEARLY:
		return time.Date(wall.Year()-(wall.Year()-r.start.Year())%n, 1, 1, 0, 0, 0, 0, time.UTC)
	case rrule.MONTHLY:
		passed := (wall.Year()-r.start.Year())*12 + int(wall.Month()-r.start.Month())
		return time.Date(r.start.Year(), r.start.Month()+time.Month(passed-passed%n), 1, 0, 0, 0, 0, time.UTC)
	case rrule.WEEKLY:
		// Day is 0 for Monday, Weekday for Sunday.
		back := (int(r.start.Weekday()) - 1 - r.opt.Wkst.Day() + 14) % 7
		return multiple(r.start.Truncate(day).AddDate(0, 0, -back), wall, time.Duration(n)*7*day)
	case rrule.HOURLY:
		return multiple(r.start.Truncate(time.Hour), wall, time.Duration(n)*time.Hour)
	case rrule.MINUTELY:
		return multiple(r.start.Truncate(time.Minute), wall, time.Duration(n)*time.Minute)
	default:
		return multiple(r.start.Truncate(day), wall, time.Duration(n)*day)
	}
}

// multiple returns the latest time up to t that is a multiple of step after
// base. It counts in seconds, because a Duration ends after 292 years.
func multiple(base, t time.Time, step time.Duration) time.Time {
	passed, every := t.Unix()-base.Unix(), int64(step/time.Second)
	return time.Unix(t.Unix()-passed%every, 0).UTC()
}
