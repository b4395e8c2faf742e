//go:build !race

package kubefleet_test

// longest is how many elements the longest list has.
const longest = 60_000
