package step

// few returns the number of trials: n, or n/oneOf under the race detector, which makes trials ten
// times as slow. make test runs all of them without it.
func few(n, oneOf int) int {
	if underRace {
		return n / oneOf
	}
	return n
}

// corpus is the number of seeds of a fuzz target. The test beside it plays the same seeds, so a few
// are enough with the race detector.
func corpus() int { return few(50, 25) }
