//go:build race

package stages

// underRace reports whether the race detector is on, which makes everything ten times
// as slow.
const underRace = true
