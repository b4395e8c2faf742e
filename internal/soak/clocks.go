package main

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// clocks are the clocks of the engines of a process. Each is wrong by an amount
// of its own.
type clocks struct{ wrong []atomic.Int64 }

func newClocks(n int) *clocks { return &clocks{wrong: make([]atomic.Int64, n)} }

// of returns the nth clock. It shows the time of day and measures nothing, as
// one does that is set again while a program runs.
func (c *clocks) of(n int) func() time.Time {
	return func() time.Time { return time.Now().Round(0).Add(time.Duration(c.wrong[n].Load())) }
}

// jump makes one of the clocks wrong by another amount, which is drawn: mostly by
// less than leases last, sometimes by hours or by weeks.
func (c *clocks) jump(r *rand.Rand) {
	span := []time.Duration{soakLease / 8, soakLease, 10 * soakLease, time.Hour, 30 * 24 * time.Hour}[r.IntN(5)]
	by := r.Int64N(2*int64(span)) - int64(span)
	c.wrong[r.IntN(len(c.wrong))].Store(by)
}

// correct makes all clocks right.
func (c *clocks) correct() {
	for i := range c.wrong {
		c.wrong[i].Store(0)
	}
}

// clockRand draws when and how the clocks of the nth process of a scenario jump.
// Those of every other scenario are right.
func (s *scenario) clockRand(nth int) *rand.Rand {
	if s.draw("clocks")%2 == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(s.seed, uint64(nth)<<16|0xc10c))
}
