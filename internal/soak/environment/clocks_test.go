package environment

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Clocks jump one by one, each by an amount of its own, and are right again once they are
// corrected.
func TestClocksJump(t *testing.T) {
	c, r := newClocks(2), rand.New(rand.NewPCG(1, 2))
	for range 20 {
		c.Jump(r, time.Second)
	}
	for i := range c.wrong {
		wrong := time.Duration(c.wrong[i].Load())
		if off := time.Until(c.of(i)()) - wrong; wrong == 0 || off < -time.Second || off > time.Second {
			t.Errorf("clock %d is %v from what it is to show, which is wrong by %v", i, off, wrong)
		}
	}
	if c.wrong[0].Load() == c.wrong[1].Load() {
		t.Error("both clocks are wrong by the same")
	}
	c.Correct()
	if off := time.Until(c.of(1)()); off < -time.Second {
		t.Errorf("the clock is wrong by %v", off)
	}
}
