package content

import "os"

// sampled is how many of n trials are made: with the race detector, which makes
// them ten times as slow, a fifth; make test makes all of them without it.
func sampled(n int) int {
	if raced && os.Getenv("SLIPWAY_SOAK") != "1" {
		return n / 5
	}
	return n
}
