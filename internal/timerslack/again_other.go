//go:build !linux

package timerslack

import "time"

// Again does nothing: other systems have no timer slack.
func (Image) Again() {}

// Set does nothing.
func Set(time.Duration) {}
