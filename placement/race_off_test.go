//go:build !race

package placement_test

// underRace reports whether the race detector is on, which makes tests ten times as
// slow.
const underRace = false
