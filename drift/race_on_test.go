//go:build race

package drift_test

// hostileItems is how many items a long list has, with the race detector a tenth of what make
// test tries without it.
const hostileItems = 10_000
