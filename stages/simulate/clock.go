package simulate

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
)

// clock is the virtual time of a simulation. Its durations are counted from start.
type clock struct {
	start time.Time
	now   time.Duration
	last  time.Duration // of the last event
	wake  time.Duration // when the run asked to be stepped; negative means never
}

func newClock(start time.Time) clock { return clock{start: start, wake: -1} }

// time returns the current moment.
func (c *clock) time() time.Time { return c.start.Add(c.now) }

// wakeAt sets the time at which the run asked to be stepped; the zero time means never.
func (c *clock) wakeAt(t time.Time) {
	c.wake = -1
	if !t.IsZero() {
		c.wake = t.Sub(c.start)
	}
}

// rings reports whether the run asked to be stepped by now.
func (c *clock) rings() bool { return c.wake >= 0 && c.wake <= c.now }

// since returns an instant as an offset.
func (c *clock) since(i stages.Instant) metav1.Duration {
	return metav1.Duration{Duration: i.Time().Sub(c.start)}
}

// sinceOrNil returns an instant as an offset, and nil for none.
func (c *clock) sinceOrNil(i stages.Instant) *metav1.Duration {
	if i == 0 {
		return nil
	}
	return new(c.since(i))
}
