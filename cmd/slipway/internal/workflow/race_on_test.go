//go:build race

package workflow

// underRace reports whether the race detector is on.
const underRace = true
