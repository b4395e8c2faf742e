//go:build race

package drift_test

// hostileItems is the number of items of a long list; with the race detector it is a tenth of the
// normal number.
const hostileItems = 10_000
