package driftwatch

import "time"

// throttle spaces out a repeated action: the first time needs no wait, and each wait is longer than
// the last. After throttleReset without the action the waits start again.
type throttle struct {
	last time.Time
	wait time.Duration
}

// Waits of a throttle: the first, the longest, and the idle time after which they start again.
const (
	throttleFirst = time.Second
	throttleMost  = 5 * time.Minute
	throttleReset = 10 * time.Minute
)

// left returns the remaining wait.
func (t *throttle) left() time.Duration {
	since := time.Since(t.last)
	if since > throttleReset {
		t.wait = 0
	}
	return max(0, t.wait-since)
}

// done records that the action was done now.
func (t *throttle) done() {
	t.last, t.wait = time.Now(), min(max(2*t.wait, throttleFirst), throttleMost)
}
