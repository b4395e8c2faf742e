//go:build race

package kubefleet_test

// longest is how many elements the longest list has, with the race detector a fifth of what make test tries without it.
const longest = 12_000
