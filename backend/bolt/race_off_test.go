//go:build !race

package bolt_test

const raceDetector = false
