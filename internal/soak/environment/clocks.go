package environment

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Clocks are the clocks of the engines of a process. Each is wrong by an amount
// of its own.
type Clocks struct{ wrong []atomic.Int64 }

func newClocks(n int) *Clocks { return &Clocks{wrong: make([]atomic.Int64, n)} }

// of returns the nth clock. Its times have no monotonic reading, like a clock that is adjusted
// while a program runs.
func (c *Clocks) of(n int) func() time.Time {
	return func() time.Time { return time.Now().Round(0).Add(time.Duration(c.wrong[n].Load())) }
}

// Jump sets one of the clocks wrong by an amount that is drawn: mostly by less than a lease
// lasts, sometimes by hours or by weeks.
func (c *Clocks) Jump(r *rand.Rand, lease time.Duration) {
	span := []time.Duration{lease / 8, lease, 10 * lease, time.Hour, 30 * 24 * time.Hour}[r.IntN(5)]
	by := r.Int64N(2*int64(span)) - int64(span)
	c.wrong[r.IntN(len(c.wrong))].Store(by)
}

// Correct sets all clocks right.
func (c *Clocks) Correct() {
	for i := range c.wrong {
		c.wrong[i].Store(0)
	}
}
