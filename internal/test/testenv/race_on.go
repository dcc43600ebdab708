//go:build race

package testenv

// raceDetector reports whether the race detector is on: then the operator gets it too.
const raceDetector = true
