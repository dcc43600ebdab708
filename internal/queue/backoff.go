package queue

import (
	"math/rand/v2"
	"time"
)

// DefaultBackoff returns delays that grow from shortest to longest: exactly shortest after the first
// failure, then shortest plus 1, 2, 4, 8, 16 seconds and a random part of a second, then longest.
// Delays that grow never exceed longest. They are multiples of 100 ms, unless shortest is less than a second.
// With a shortest delay other than 5 s the growing part is scaled with it.
func DefaultBackoff(shortest, longest time.Duration) func(failures int) time.Duration {
	return backoff(shortest, longest, func() time.Duration { return rand.N(time.Second) })
}

const (
	doublings    = 5
	standardUnit = 5 * time.Second
)

func backoff(shortest, longest time.Duration, random func() time.Duration) func(int) time.Duration {
	scale := float64(shortest) / float64(standardUnit)
	return func(failures int) time.Duration {
		switch {
		case failures == 0:
			return shortest
		case failures > doublings:
			return longest
		}
		grown := time.Duration(float64(time.Second<<(failures-1)+random()) * scale)
		delay := shortest + grown
		if shortest >= time.Second {
			delay = delay.Truncate(100 * time.Millisecond)
		}
		return min(delay, longest)
	}
}
