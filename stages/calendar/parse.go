package calendar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	maxText     = 2000
	maxInterval = 10_000
	maxCount    = 1000
	maxTimes    = 96
)

// parser reads the text of a recurrence rule. The library's own parser stops at the first
// mistake, uses the last of two parts with one name, and accepts numbers that it cannot evaluate.
type parser struct {
	opt rrule.ROption
	// until is a wall time, or with utc an instant.
	until time.Time
	utc   bool
	seen  sets.Set[string]
	wrong []string
}

func parse(text string) *parser {
	p := &parser{seen: sets.New[string]()}
	if len(text) > maxText {
		p.fail("has more than %d characters", maxText)
		return p
	}
	text = strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "RRULE:")
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || value == "":
			p.fail("%q is not <name>=<value>", part)
		case p.seen.Has(name):
			p.fail("%s is given twice", name)
		default:
			p.seen.Insert(name)
			p.part(name, value)
		}
	}
	if !p.seen.Has("FREQ") {
		p.fail("FREQ is missing, for example FREQ=DAILY")
	}
	return p
}

func (p *parser) fail(format string, args ...any) {
	p.wrong = append(p.wrong, fmt.Sprintf(format, args...))
}

func (p *parser) has(names ...string) bool { return p.seen.HasAny(names...) }

func (p *parser) part(name, value string) {
	switch name {
	case "FREQ":
		p.freq(value)
	case "INTERVAL":
		p.opt.Interval = p.number(name, value, 1, maxInterval, false)
	case "COUNT":
		p.opt.Count = p.number(name, value, 1, maxCount, false)
	case "UNTIL":
		p.ends(value)
	case "WKST":
		p.opt.Wkst, _ = p.day(name, value)
	case "BYDAY":
		p.days(value)
	case "DTSTART":
		p.fail("DTSTART does not belong here: give it as start")
	default:
		p.list(name, value)
	}
}

func (p *parser) freq(value string) {
	switch f, err := rrule.StrToFreq(value); {
	case err != nil:
		p.fail("FREQ=%s is none of YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY and MINUTELY", value)
	case f == rrule.SECONDLY:
		p.fail("FREQ=SECONDLY is too often: at most MINUTELY")
	default:
		p.opt.Freq = f
	}
}

// number reads a number from low to high or, if signed, also from -high to -low.
func (p *parser) number(name, value string, low, high int, signed bool) int {
	n, err := strconv.Atoi(value)
	if err == nil && (low <= n && n <= high || signed && -high <= n && n <= -low) {
		return n
	}
	more := ""
	if signed {
		more = fmt.Sprintf(" or from %d to %d", -high, -low)
	}
	p.fail("%s: %s is not a number from %d to %d%s", name, value, low, high, more)
	return low
}

// list reads a part whose value is a list of numbers.
func (p *parser) list(name, value string) {
	o, low, high, signed := &p.opt, 1, 0, false
	var into *[]int
	switch name {
	case "BYSECOND":
		into, low, high = &o.Bysecond, 0, 59
	case "BYMINUTE":
		into, low, high = &o.Byminute, 0, 59
	case "BYHOUR":
		into, low, high = &o.Byhour, 0, 23
	case "BYMONTHDAY":
		into, high, signed = &o.Bymonthday, 31, true
	case "BYYEARDAY":
		into, high, signed = &o.Byyearday, 366, true
	case "BYWEEKNO":
		into, high = &o.Byweekno, 53
	case "BYMONTH":
		into, high = &o.Bymonth, 12
	case "BYSETPOS":
		into, high, signed = &o.Bysetpos, 366, true
	default:
		p.fail("%s is not a part of a rule that is known", name)
		return
	}
	for n := range strings.SplitSeq(value, ",") {
		*into = append(*into, p.number(name, n, low, high, signed))
	}
	slices.Sort(*into)
	*into = slices.Compact(*into)
}

// ends reads UNTIL.
func (p *parser) ends(value string) {
	if t, err := time.Parse(rrule.DateTimeFormat, value); err == nil {
		p.until, p.utc = t, true
		return
	}
	if t, err := time.Parse(rrule.LocalDateTimeFormat, value); err == nil {
		p.until = t
		return
	}
	t, err := time.Parse(rrule.DateFormat, value)
	if err != nil {
		p.fail("UNTIL=%s is neither a date (20260131) nor a local time (20260131T180000) nor one in UTC (20260131T170000Z)", value)
	}
	p.until = t.Add(24*time.Hour - time.Second)
}

func (p *parser) day(name, value string) (rrule.Weekday, bool) {
	days := []rrule.Weekday{rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA, rrule.SU}
	i := slices.IndexFunc(days, func(d rrule.Weekday) bool { return d.String() == value })
	if i < 0 {
		p.fail("%s: %q is none of MO, TU, WE, TH, FR, SA and SU", name, value)
		return rrule.MO, false
	}
	return days[i], true
}

// days reads BYDAY: days with optional numbers before them.
func (p *parser) days(value string) {
	for text := range strings.SplitSeq(value, ",") {
		cut := max(len(text)-2, 0)
		d, ok := p.day("BYDAY", text[cut:])
		if ok && cut > 0 {
			d = d.Nth(p.number("BYDAY", text[:cut], 1, 53, true))
		}
		if !slices.Contains(p.opt.Byweekday, d) {
			p.opt.Byweekday = append(p.opt.Byweekday, d)
		}
	}
}
