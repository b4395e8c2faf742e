package calendar

import "time"

// farAhead is how many spans a cursor skips before it searches for the rest.
const farAhead = 200

// cursor goes through the spans of a source, forward only.
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

// seek goes to the first span that ends after t.
func (c *cursor) seek(t time.Time) {
	for n := 0; c.ok && !c.to.After(t); n++ {
		if n == farAhead {
			c.next = c.spans(t)
		}
		c.span, c.ok = c.next()
	}
}

// holds reports whether t is in the span that was sought for it.
func (c *cursor) holds(t time.Time) bool { return c.ok && !c.from.After(t) }

// cover is the union of sources, at a time that goes forward.
type cover struct {
	cursors []cursor
	// dense is set where starts are too many to go through them one by one.
	dense bool
	// end is where the future ends.
	end time.Time
	// covered reports whether a source has the time, until when it changes; first
	// is the first of them, and steady when one begins or ends.
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

// extent returns when the spans that hold t, and those that overlap or touch
// them, are over.
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

// repetitions returns how the sources go on from t.
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
