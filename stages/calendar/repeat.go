package calendar

import (
	"slices"
	"time"

	"github.com/teambition/rrule-go"
)

// Daily, hourly and minutely rules have up to 1440 starts a day. If two rules never agree, or one
// never pauses, a search for a change would visit all starts of 400 days. But rules repeat: a fact
// that holds for one period, plus the longest duration that began before it, holds until the
// repetition ends.

// repetition describes how a source continues from a time: everything that begins before until
// begins again after every. If every is 0, nothing begins or ends before until.
type repetition struct {
	every, lasts time.Duration
	until        time.Time
	// irregular: the source is not predictable before until.
	irregular bool
}

// scope says which parts of a rule belong to the repetition; a change of the other parts ends it.
type scope int

const (
	// byMinute: the repetition ends when the next hour or day matches the other parts of the rule
	// differently.
	byMinute scope = iota
	// byWeek: hours and days of the week belong to the repetition.
	byWeek
	scopes
)

// longestPeriod limits the length of a repetition: visiting a longer one would take as long as
// the whole search.
const longestPeriod = 100 * day

func (r *rule) dense() bool {
	return r.opt.Freq >= rrule.DAILY && len(r.opt.Bysetpos) == 0 && r.counted == nil
}

func (r *rule) repeats(t, end time.Time, sc scope) repetition {
	local := t.In(r.loc)
	begun, over := local.ZoneBounds()
	switch {
	case !begun.IsZero() && t.Before(begun.Add(day)):
		// After clocks were set back, there is no occurrence in the repeated time.
		return repetition{until: begun.Add(day), irregular: true}
	case !over.IsZero() && !over.After(t): // see instant
		return repetition{until: t.Add(day), irregular: true}
	case over.IsZero() || over.After(end):
		over = end
	}
	wall := wallClock(t, r.loc)
	if wall.Before(r.start) {
		return repetition{until: earlier(over, instant(r.start, r.loc))}
	}
	if !r.until.IsZero() {
		if !r.until.After(t) {
			return repetition{until: over, lasts: r.duration}
		}
		over = earlier(over, r.until)
	}
	until := over
	if turn, ok := r.turns(wall, wallClock(over, r.loc), sc); ok {
		until = earlier(over, instant(turn, r.loc))
	}
	return repetition{every: r.every(sc), lasts: r.duration, until: until}
}

// every returns the period of a rule while the parts outside of the scope do not change their
// answer.
func (r *rule) every(sc scope) time.Duration {
	unit := time.Minute
	switch r.opt.Freq {
	case rrule.DAILY:
		unit = day
	case rrule.HOURLY:
		unit = time.Hour
	default:
	}
	n := time.Duration(r.opt.Interval) * unit
	if len(r.opt.Byminute) > 0 {
		n = multipleOf(n, time.Hour)
	}
	if sc == byWeek && len(r.hours()) > 0 {
		n = multipleOf(n, day)
	}
	if sc == byWeek && len(r.opt.Byweekday) > 0 {
		n = multipleOf(n, 7*day)
	}
	return n
}

// hours returns the hours that the rule selects; a daily rule has all.
func (r *rule) hours() []int {
	if r.opt.Freq == rrule.DAILY {
		return nil
	}
	return r.opt.Byhour
}

// turns returns the first time after a wall time and before end at which the parts outside of the
// scope change their answer.
func (r *rule) turns(wall, end time.Time, sc scope) (time.Time, bool) {
	step := day
	if sc == byMinute && len(r.hours()) > 0 {
		step = time.Hour
	} else if len(r.opt.Bymonth)+len(r.opt.Bymonthday)+len(r.opt.Byyearday) == 0 && (sc == byWeek || len(r.opt.Byweekday) == 0) {
		return time.Time{}, false
	}
	now := r.allows(wall, sc)
	for t := wall.Truncate(step).Add(step); t.Before(end); t = t.Add(step) {
		if r.allows(t, sc) != now {
			return t, true
		}
	}
	return time.Time{}, false
}

// allows reports whether the parts outside of the scope allow an occurrence in the hour or on the
// day of a wall time.
func (r *rule) allows(wall time.Time, sc scope) bool {
	o := &r.opt
	if sc == byMinute {
		if hours := r.hours(); len(hours) > 0 && !slices.Contains(hours, wall.Hour()) ||
			len(o.Byweekday) > 0 && !slices.Contains(o.Byweekday, weekday(wall.Weekday())) {
			return false
		}
	}
	y, m, d := wall.Date()
	ofMonth := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	ofYear := time.Date(y, 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	counted := func(list []int, n, of int) bool {
		return len(list) == 0 || slices.Contains(list, n) || slices.Contains(list, n-of-1)
	}
	return (len(o.Bymonth) == 0 || slices.Contains(o.Bymonth, int(m))) &&
		counted(o.Bymonthday, d, ofMonth) && counted(o.Byyearday, wall.YearDay(), ofYear)
}

// multipleOf returns the least common multiple of two durations in whole minutes.
func multipleOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	if a > longestPeriod || b > longestPeriod {
		return max(a, b)
	}
	x, y := int(a/time.Minute), int(b/time.Minute)
	return time.Duration(x/gcd(x, y)*y) * time.Minute
}

// repetition returns how a cursor continues after a seek to t.
func (c *cursor) repetition(t, end time.Time, sc scope) repetition {
	switch {
	case c.dense():
		return c.repeats(t, end, sc)
	case !c.ok:
		return repetition{until: end}
	case c.holds(t):
		return repetition{until: earlier(c.to, end)}
	default:
		return repetition{until: earlier(c.from, end)}
	}
}

// stretch is a time during which all of several sources repeat. A state that did not change up to
// known does not change up to until. If until is not after known, nothing is predictable before
// until.
type stretch struct{ known, until time.Time }

// stretchOf returns the stretch from t on for all repetitions.
func stretchOf(t, end time.Time, all []repetition) stretch {
	s := stretch{until: end}
	var every, lasts time.Duration
	irregular := false
	for _, r := range all {
		every, lasts = multipleOf(every, r.every), max(lasts, r.lasts)
		s.until = earlier(s.until, r.until)
		irregular = irregular || r.irregular
	}
	s.known = t.Add(max(every, 1) + lasts) // includes t itself
	if irregular || every > longestPeriod {
		s.known = s.until
	}
	return s
}

// leaps are the stretches in which a state does not change while t increases.
type leaps [scopes]stretch

// from returns the last time until which the state is known not to change, which may be t. It
// calls stretchOf for a new stretch from t on if none is known.
func (l *leaps) from(t time.Time, stretchOf func(scope) stretch) time.Time {
	to := t
	for sc := range l {
		s := &l[sc]
		if !t.Before(s.until.Add(-1)) {
			*s = stretchOf(scope(sc))
		}
		if s.until.After(s.known) && !t.Before(s.known) && to.Before(s.until) {
			to = s.until.Add(-1)
		}
	}
	return to
}
