package fleet

import "os"

// apart returns the distance between the tested moments: 1, or n with the race detector.
func apart(n int) int {
	if raced && os.Getenv("SLIPWAY_SOAK") != "1" {
		return n
	}
	return 1
}
