//go:build race

package snapshot_test

// everyBit is how far apart the bits are that are flipped.
const everyBit = 7
