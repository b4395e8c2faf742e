package calendar

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// How far ahead a schedule searches, with few starts a day and with many.
const (
	aheadFew  = 3653 * day
	aheadMany = 400 * day
	fewPerDay = 100
)

// schedule has the windows and freezes of a cluster. Clusters with the same rules share one.
type schedule struct {
	// allow must all agree; deny wins.
	allow []allowed
	deny  []denied
	ahead time.Duration
	// plain disables skipping of repetitions, in tests.
	plain bool
	// latest is the latest answer. It affects only the speed of an answer.
	latest atomic.Pointer[answer]
}

// allowed are the windows of a level.
type allowed struct {
	sources []source
	// why is the reason if none is open.
	why string
}

// denied is a freeze.
type denied struct {
	source
	why string
}

// answer is a schedule's answer from one instant to another.
type answer struct {
	span
	window stages.Window
	// holds is the end of the time when window.Until is right; it is at least to.
	holds time.Time
}

// setHorizon sets how far ahead to search, after all parts are added.
func (s *schedule) setHorizon() {
	n := 0
	for _, a := range s.allow {
		for _, src := range a.sources {
			n += src.perDay()
		}
	}
	for _, d := range s.deny {
		n += d.perDay()
	}
	s.ahead = aheadFew
	if n > fewPerDay {
		s.ahead = aheadMany
	}
}

func (s *schedule) window(at time.Time) stages.Window {
	if a := s.latest.Load(); a != nil && !at.Before(a.from) && at.Before(a.to) {
		return a.window
	}
	a := s.answer(at.UTC())
	s.latest.Store(a)
	return a.window
}

func (s *schedule) answer(at time.Time) *answer {
	// The end is constant for a day, and so is an answer without a change.
	today := at.Truncate(day)
	n := s.now(at, today.Add(s.ahead))
	a := &answer{span: span{at, n.steady()}}
	a.window = stages.Window{Open: n.open(), Reason: s.reason(n)}
	a.window.Limited = len(s.allow) > 0 || n.frozen.covered
	a.window.Until, a.holds = s.until(at, n)
	a.to = earlier(a.to, a.holds)
	return a
}

// until returns when open changes, zero for not before the end, and the end of the time when that
// is right. It searches far ahead only if the latest answer does not have it.
func (s *schedule) until(at time.Time, n *now) (until, holds time.Time) {
	if a := s.latest.Load(); a != nil && !at.Before(a.from) && at.Before(a.holds) {
		return a.window.Until, a.holds
	}
	if until = n.change(); until.Before(n.end) {
		return until, until
	}
	return time.Time{}, at.Truncate(day).Add(day)
}

func (s *schedule) reason(n *now) string {
	if n.frozen.covered {
		return s.deny[n.frozen.first].why
	}
	for i, c := range n.windows {
		if !c.covered {
			return s.allow[i].why
		}
	}
	return ""
}

// now is a schedule at a time that only increases.
type now struct {
	windows []*cover
	frozen  *cover
	end     time.Time
}

func (s *schedule) now(at, end time.Time) *now {
	n := &now{end: end}
	for _, a := range s.allow {
		n.windows = append(n.windows, newCover(a.sources, at, end, !s.plain))
	}
	freezes := make([]source, len(s.deny))
	for i, d := range s.deny {
		freezes[i] = d.source
	}
	n.frozen = newCover(freezes, at, end, !s.plain)
	return n
}

// steady returns when the next window or freeze begins or ends.
func (n *now) steady() time.Time {
	t := n.frozen.steady
	for _, c := range n.windows {
		t = earlier(t, c.steady)
	}
	return t
}

func (n *now) open() bool {
	_, blocked := n.blocked()
	return !blocked
}

// blocked reports whether a freeze or a level without an open window blocks now, and when all of
// the blocking ones have changed.
func (n *now) blocked() (until time.Time, yes bool) {
	if n.frozen.covered {
		until, yes = n.frozen.until, true
	}
	for _, c := range n.windows {
		if !c.covered && (!yes || c.until.After(until)) {
			until, yes = c.until, true
		}
	}
	return until, yes
}

// change moves to the time when open changes, or to the end, and returns it.
func (n *now) change() time.Time {
	t, blocked := n.blocked()
	if !blocked {
		return n.closes()
	}
	var leaps leaps
	for t.Before(n.end) {
		n.move(t)
		next, blocked := n.blocked()
		if !blocked {
			return t
		}
		if n.dense() {
			next = later(next, leaps.from(t, func(sc scope) stretch { return n.stretch(t, sc) }))
		}
		t = next
	}
	return n.end
}

// dense reports whether there are too many starts to iterate over each.
func (n *now) dense() bool {
	return n.frozen.dense || slices.ContainsFunc(n.windows, func(c *cover) bool { return c.dense })
}

// stretch returns the stretch of all windows and freezes from t on; n must have been moved to t.
func (n *now) stretch(t time.Time, sc scope) stretch {
	var all []repetition
	begin := t
	for _, c := range append(slices.Clip(n.windows), n.frozen) {
		if c.covered && c.until.Sub(t) > day {
			all = append(all, repetition{until: c.until})
			continue
		}
		at := t
		if c.covered {
			at = c.until // the position of its cursors
		}
		begin = later(begin, at)
		all = append(all, c.repetitions(at, sc)...)
	}
	return stretchOf(begin, n.end, all)
}

func (n *now) move(t time.Time) {
	n.frozen.move(t)
	for _, c := range n.windows {
		c.move(t)
	}
}

// closes returns when the first of the open windows, or the absence of freezes, ends.
func (n *now) closes() time.Time {
	t := n.frozen.until
	for _, c := range n.windows {
		t = earlier(t, c.until)
	}
	return t
}
