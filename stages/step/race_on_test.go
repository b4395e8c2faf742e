//go:build race

package step

// underRace reports whether the race detector is on, which makes everything ten times
// as slow.
const underRace = true
