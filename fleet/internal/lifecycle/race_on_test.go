//go:build race

package lifecycle

// underRace reports whether the race detector is on, which makes everything ten times slower; make
// test plays all random lives without it.
const underRace = true
