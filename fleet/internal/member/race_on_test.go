//go:build race

package member

// raced reports whether the race detector is on.
const raced = true
