package fleet_test

// sampled returns the number of trials out of n: a fifth with the race detector, which makes them
// ten times slower. make test makes all of them without it.
func sampled(n int) int {
	if underRace && !soak() {
		return n / 5
	}
	return n
}

// apart returns the distance between the tested moments: 1, or n with the race detector.
func apart(n int) int {
	if underRace && !soak() {
		return n
	}
	return 1
}
