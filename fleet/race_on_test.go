//go:build race

package fleet

// raced tells that the race detector is on.
const raced = true
