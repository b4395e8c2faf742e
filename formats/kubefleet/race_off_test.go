//go:build !race

package kubefleet_test

// longest is the number of elements of the longest list.
const longest = 60_000
