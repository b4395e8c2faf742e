//go:build unix && !race

package remote_test

// underRace reports whether the race detector is on, which makes tests ten times as
// slow.
const underRace = false
