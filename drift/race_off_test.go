//go:build !race

package drift_test

// hostileItems is how many items a long list has.
const hostileItems = 100_000
