//go:build !race

package fleet_test

// underRace tells that the race detector is on.
const underRace = false
