//go:build race

package kubefleet_test

// longest is the number of elements of the longest list. With the race detector it is a fifth of
// the number without.
const longest = 12_000
