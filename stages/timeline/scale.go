package timeline

import (
	"strconv"
	"strings"
	"time"
)

// scale maps moments to positions from 0 to width.
type scale struct {
	start time.Time
	span  time.Duration
	width float64
}

func newScale(t *Timeline, width float64) scale {
	return scale{start: t.Start, span: max(t.End.Sub(t.Start), time.Millisecond), width: width}
}

// at returns the position of a moment, within the picture.
func (s scale) at(t time.Time) float64 {
	d := min(max(t.Sub(s.start), 0), s.span)
	return s.width * (float64(d) / float64(s.span))
}

// steps are round distances between ticks.
var steps = [...]time.Duration{ //nolint:gochecknoglobals // a constant table
	time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day,
}

const day = 24 * time.Hour

// step returns the distance for at most so many ticks.
func (s scale) step(most int) time.Duration {
	for _, d := range steps {
		if s.span/d < time.Duration(most) {
			return d
		}
	}
	d := steps[len(steps)-1]
	for s.span/d >= time.Duration(most) {
		d *= 2
	}
	return d
}

// tick is a label at a moment.
type tick struct {
	at    time.Time
	label string
}

// clock returns at most so many ticks at round times of day in UTC. The first tick, and the first
// tick of each day, has the date.
func (s scale) clock(most int) (out []tick) {
	step := s.step(most)
	format := "15:04"
	switch {
	case step < time.Second:
		format = "15:04:05.000"
	case step < time.Minute:
		format = "15:04:05"
	case step >= day:
		format = "2 Jan"
	}
	date := ""
	for at, i := s.start.Truncate(step), 0; !at.After(s.start.Add(s.span)) && i < 4*most; at, i = at.Add(step), i+1 {
		if at.Before(s.start) {
			continue
		}
		label := at.Format(format)
		if today := at.Format("2 Jan"); step < day && today != date {
			label, date = today+" "+label, today
		}
		out = append(out, tick{at, label})
	}
	return out
}

// offsets returns at most so many ticks at round times since the start.
func (s scale) offsets(most int) (out []tick) {
	step := s.step(most)
	for d, i := time.Duration(0), 0; d <= s.span && i < 4*most; d, i = d+step, i+1 {
		out = append(out, tick{s.start.Add(d), "+" + short(d)})
	}
	return out
}

// short formats a duration without zero parts: 2d, 1h30m, 45s.
func short(d time.Duration) string {
	d = max(d, 0)
	if d < time.Second {
		if d == 0 {
			return "0s"
		}
		return d.Round(time.Millisecond).String()
	}
	d = d.Round(time.Second)
	var b strings.Builder
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
			d %= unit.of
		}
	}
	return b.String()
}
