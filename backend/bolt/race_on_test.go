//go:build race

package bolt_test

// raceDetector reports whether everything takes ten times as long, so that trials
// whose number is what counts are a sample; make test makes all of them in a
// pass without the detector.
const raceDetector = true
