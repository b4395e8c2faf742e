package calendar

import "time"

// farAhead is the number of spans that a cursor skips before it searches instead.
const farAhead = 200

// cursor iterates over the spans of a source, forward only.
type cursor struct {
	source
	next func() (span, bool)
	span
	ok bool
}

func newCursor(s source, t time.Time) cursor {
	c := cursor{source: s, next: s.spans(t)}
	c.span, c.ok = c.next()
	return c
}

// seek moves to the first span that ends after t.
func (c *cursor) seek(t time.Time) {
	for n := 0; c.ok && !c.to.After(t); n++ {
		if n == farAhead {
			c.next = c.spans(t)
		}
		c.span, c.ok = c.next()
	}
}

// holds reports whether t, after a seek to it, is in the span.
func (c *cursor) holds(t time.Time) bool { return c.ok && !c.from.After(t) }

// cover is the union of sources, at a time that only increases.
type cover struct {
	cursors []cursor
	// dense reports whether there are too many starts to iterate over each.
	dense bool
	// end is the end of the search.
	end time.Time
	// covered reports whether a source contains the time, until is when that changes. first is the
	// index of the first such source, and steady the time at which the next span begins or ends.
	covered       bool
	first         int
	until, steady time.Time
}

func newCover(sources []source, t, end time.Time, leap bool) *cover {
	c := &cover{end: end}
	for _, s := range sources {
		c.cursors = append(c.cursors, newCursor(s, t))
		c.dense = c.dense || leap && s.dense()
	}
	c.move(t)
	return c
}

// move goes forward to t.
func (c *cover) move(t time.Time) {
	if t.Before(c.until) {
		return
	}
	c.covered, c.until, c.steady = false, c.end, c.end
	for i := range c.cursors {
		cur := &c.cursors[i]
		cur.seek(t)
		switch {
		case cur.holds(t):
			if !c.covered {
				c.covered, c.first = true, i
			}
			c.steady = earlier(c.steady, cur.to)
		case cur.ok:
			c.steady = earlier(c.steady, cur.from)
		}
	}
	c.until = c.steady
	if c.covered {
		c.until = c.extent(t)
	}
}

// extent returns the end of the spans that contain t, and of the spans that overlap or touch
// them.
func (c *cover) extent(t time.Time) time.Time {
	var leaps leaps
	for grown := true; grown && t.Before(c.end); {
		grown = false
		for i := range c.cursors {
			cur := &c.cursors[i]
			if cur.seek(t); cur.holds(t) {
				t, grown = cur.to, true
			}
		}
		if grown && c.dense {
			t = leaps.from(t, func(sc scope) stretch { return stretchOf(t, c.end, c.repetitions(t, sc)) })
		}
	}
	return earlier(t, c.end)
}

// repetitions returns how the sources repeat from t on.
func (c *cover) repetitions(t time.Time, sc scope) []repetition {
	all := make([]repetition, len(c.cursors))
	for i := range c.cursors {
		c.cursors[i].seek(t)
		all[i] = c.cursors[i].repetition(t, c.end, sc)
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
