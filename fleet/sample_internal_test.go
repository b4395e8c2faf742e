package fleet

import "os"

// apart is how far apart the moments are at which something is tried: it is tried
// at each, with the race detector at every nth.
func apart(n int) int {
	if raced && os.Getenv("SLIPWAY_SOAK") != "1" {
		return n
	}
	return 1
}
