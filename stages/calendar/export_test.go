package calendar

import (
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// Plain has a calendar go through all starts of its rules, one by one.
func Plain(c stages.Calendar) stages.Calendar {
	for _, s := range c.(calendar) {
		s.plain = true
	}
	return c
}

// Starts returns how many starts a calendar goes through for the answer about its first
// cluster at a time.
func Starts(c stages.Calendar, at time.Time) (n int) {
	s := c.(calendar)[0]
	for i := range s.allow {
		list := make([]source, len(s.allow[i].sources))
		for j, src := range s.allow[i].sources {
			list[j] = tallied{src, &n}
		}
		s.allow[i].sources = list
	}
	for i := range s.deny {
		s.deny[i].source = tallied{s.deny[i].source, &n}
	}
	s.window(at)
	return n
}

// tallied is a source whose starts are counted.
type tallied struct {
	source
	n *int
}

func (t tallied) spans(at time.Time) func() (span, bool) {
	next := t.source.spans(at)
	return func() (span, bool) {
		*t.n++
		return next()
	}
}
