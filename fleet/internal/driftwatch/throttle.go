package driftwatch

import "time"

// throttle spaces out what is done again and again: the first time needs no wait, each further one a longer one.
// After throttleReset without it the waits begin again.
type throttle struct {
	last time.Time
	wait time.Duration
}

// The waits of a throttle.
const (
	throttleFirst = time.Second
	throttleMost  = 5 * time.Minute
	throttleReset = 10 * time.Minute
)

// left returns how long to wait yet.
func (t *throttle) left() time.Duration {
	since := time.Since(t.last)
	if since > throttleReset {
		t.wait = 0
	}
	return max(0, t.wait-since)
}

// done takes down that it was done now.
func (t *throttle) done() {
	t.last, t.wait = time.Now(), min(max(2*t.wait, throttleFirst), throttleMost)
}
