//go:build race

package lifecycle

// underRace reports whether the race detector is on, which makes everything ten times as slow; make test plays
// all of the random lives without it.
const underRace = true
