package calendar

import (
	"slices"
	"time"

	"github.com/teambition/rrule-go"
)

// fit checks that the parts of a rule are consistent, and fills in missing parts from start,
// which is a wall time, or zero for none.
func (p *parser) fit(start time.Time) {
	if p.opt.Interval == 0 {
		p.opt.Interval = 1
	}
	p.fitParts()
	p.fitDays()
	if start.IsZero() {
		p.fitAnywhere()
	} else {
		p.fillDay(start)
	}
	p.fillTime(start)
	p.fitTimes(start)
}

// fitParts refuses combinations that RFC 5545 excludes, or that the library evaluates
// differently.
func (p *parser) fitParts() {
	f := p.opt.Freq
	if p.has("COUNT") && p.has("UNTIL") {
		p.fail("COUNT and UNTIL exclude each other")
	}
	if p.has("BYWEEKNO") && f != rrule.YEARLY {
		p.fail("BYWEEKNO goes with FREQ=YEARLY only")
	}
	if p.has("BYYEARDAY") && (f == rrule.MONTHLY || f == rrule.WEEKLY || f == rrule.DAILY) {
		p.fail("BYYEARDAY does not go with FREQ=%s", f)
	}
	if p.has("BYMONTHDAY") && f == rrule.WEEKLY {
		p.fail("BYMONTHDAY does not go with FREQ=WEEKLY")
	}
	if p.has("BYSETPOS") && f > rrule.DAILY {
		p.fail("BYSETPOS does not go with FREQ=%s", f)
	}
	if p.has("BYSETPOS") && !p.has("BYMONTH", "BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE") {
		p.fail("BYSETPOS picks from what another BY part gives, and there is none")
	}
}

// fitDays checks the numbers of BYDAY.
func (p *parser) fitDays() {
	numbered := 0
	for _, d := range p.opt.Byweekday {
		if d.N() == 0 {
			continue
		}
		numbered++
		if monthly := p.opt.Freq == rrule.MONTHLY || p.has("BYMONTH"); monthly && (d.N() > 5 || d.N() < -5) {
			p.fail("BYDAY: a month has no %s", d)
		}
	}
	if numbered == 0 {
		return
	}
	if numbered < len(p.opt.Byweekday) {
		p.fail("BYDAY has days with and without a number; use two windows")
	}
	if p.opt.Freq > rrule.MONTHLY || p.has("BYWEEKNO") {
		p.fail("BYDAY with numbers goes with FREQ=MONTHLY, and FREQ=YEARLY without BYWEEKNO")
	}
}

// fitAnywhere refuses rules that only a start could complete.
func (p *parser) fitAnywhere() {
	o := &p.opt
	perDay := 1
	switch o.Freq {
	case rrule.HOURLY:
		perDay = 24
	case rrule.MINUTELY:
		perDay = 24 * 60
	default:
	}
	if perDay%o.Interval != 0 {
		p.fail("INTERVAL=%d with FREQ=%s needs a start to count from", o.Interval, o.Freq)
	}
	if p.has("COUNT") {
		p.fail("COUNT needs a start to count from")
	}
	if want := p.openDay(); want != "" {
		p.fail("FREQ=%s needs %s, or a start that says which day", o.Freq, want)
	}
}

// openDay returns the parts of which one is required because the rule does not determine the
// days, or "".
func (p *parser) openDay() string {
	switch f := p.opt.Freq; {
	case f == rrule.WEEKLY && !p.has("BYDAY"):
		return "BYDAY"
	case f == rrule.MONTHLY && !p.has("BYMONTHDAY", "BYDAY"):
		return "BYMONTHDAY or BYDAY"
	case f == rrule.YEARLY && p.has("BYWEEKNO") && !p.has("BYDAY"):
		return "BYDAY"
	case f == rrule.YEARLY && !p.has("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY"):
		return "BYMONTHDAY, BYYEARDAY or BYDAY"
	}
	return ""
}

// fillDay fills in the days from start, so that the rule means the same from every starting point
// of an evaluation.
func (p *parser) fillDay(start time.Time) {
	o := &p.opt
	switch p.openDay() {
	case "":
	case "BYDAY":
		o.Byweekday = []rrule.Weekday{weekday(start.Weekday())}
	default:
		o.Bymonthday = []int{start.Day()}
		if o.Freq == rrule.YEARLY && !p.has("BYMONTH") {
			o.Bymonth = []int{int(start.Month())}
		}
	}
}

// fillTime fills in the time of the day from start, down to the finest part that the rule names;
// finer parts are 0.
func (p *parser) fillTime(start time.Time) {
	o := &p.opt
	hour, minute, second := start.Clock()
	if p.has("BYHOUR") {
		minute, second = 0, 0
	}
	if p.has("BYMINUTE") {
		second = 0
	}
	if o.Freq < rrule.HOURLY && len(o.Byhour) == 0 {
		o.Byhour = []int{hour}
	}
	if o.Freq < rrule.MINUTELY && len(o.Byminute) == 0 {
		o.Byminute = []int{minute}
	}
	if len(o.Bysecond) == 0 {
		o.Bysecond = []int{second}
	}
}

// fitTimes checks that the rule has at least one time of the day, and not too many.
func (p *parser) fitTimes(start time.Time) {
	o := &p.opt
	if len(o.Bysecond) > 1 {
		p.fail("BYSECOND has more than one second of the minute")
	}
	if n := len(o.Byhour) * len(o.Byminute); n > maxTimes && o.Freq < rrule.HOURLY {
		p.fail("has %d times of the day, which is more than %d: use FREQ=HOURLY or FREQ=MINUTELY", n, maxTimes)
	}
	if !p.meets(start) {
		p.fail("never comes to a time of BYDAY, BYHOUR and BYMINUTE with INTERVAL=%d", o.Interval)
	}
}

// meets reports whether a daily, hourly or minutely rule ever reaches a wanted time of the week.
// Otherwise the library would search for a very long time, or endlessly.
func (p *parser) meets(start time.Time) bool {
	var unit int
	switch p.opt.Freq {
	case rrule.DAILY:
		unit = 24 * 60
	case rrule.HOURLY:
		unit = 60
	case rrule.MINUTELY:
		unit = 1
	default:
		return true
	}
	week := 7 * 24 * 60 / unit
	step := gcd(p.opt.Interval, week)
	begin := (int(start.Weekday())*24+start.Hour())*60 + start.Minute()
	for slot := begin / unit % step; slot < week; slot += step {
		if p.wants(slot * unit) {
			return true
		}
	}
	return false
}

// wants reports whether the rule allows a minute of the week, which begins on Sunday, or the day
// or the hour that begins with it.
func (p *parser) wants(m int) bool {
	o := &p.opt
	day := weekday(time.Weekday(m / 60 / 24))
	return (len(o.Byweekday) == 0 || slices.Contains(o.Byweekday, day)) &&
		(o.Freq < rrule.HOURLY || len(o.Byhour) == 0 || slices.Contains(o.Byhour, m/60%24)) &&
		(o.Freq < rrule.MINUTELY || len(o.Byminute) == 0 || slices.Contains(o.Byminute, m%60))
}

func weekday(d time.Weekday) rrule.Weekday {
	return []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}[d]
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
