package content

import "os"

// sampled returns how many of n trials to run. With the race detector, which makes them ten times
// slower, it is a fifth; make test runs all of them without it.
func sampled(n int) int {
	if raced && os.Getenv("SLIPWAY_SOAK") != "1" {
		return n / 5
	}
	return n
}
