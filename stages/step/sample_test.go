package step

// few is how many of n trials are made: with the race detector, which makes them ten
// times as slow, one of so many; make test makes all of them without it.
func few(n, oneOf int) int {
	if underRace {
		return n / oneOf
	}
	return n
}

// corpus is with how many seeds a fuzz target begins. The test beside it plays the same
// ones, so that with the race detector few are enough.
func corpus() int { return few(50, 25) }
