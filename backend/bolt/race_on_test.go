//go:build race

package bolt_test

// raceDetector reports whether the race detector makes everything ten times slower. Then tests
// with many trials run only a sample; make test runs all of them in a pass without the detector.
const raceDetector = true
