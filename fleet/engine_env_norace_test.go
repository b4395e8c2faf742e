//go:build !race

package fleet_test

// underRace reports whether the race detector is on.
const underRace = false
