//go:build !race

package lifecycle

// underRace reports whether the race detector is on.
const underRace = false
