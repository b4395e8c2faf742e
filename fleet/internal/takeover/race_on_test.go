//go:build unix && race

package takeover

// underRace reports whether the race detector is on, which makes tests ten times as
// slow.
const underRace = true
