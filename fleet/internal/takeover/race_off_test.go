//go:build unix && !race

package takeover

// underRace reports whether the race detector is on, which makes tests ten times slower.
const underRace = false
