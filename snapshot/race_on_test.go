//go:build race

package snapshot_test

// everyBit is the distance between two flipped bits.
const everyBit = 7
