package watch

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// stoppableClock is the real clock, but a wait on it ends with ctx. The reflector waits for its back-off
// without looking at a context, which would delay our end by as much.
type stoppableClock struct {
	clock.RealClock
	ctx context.Context
}

func (c stoppableClock) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	wait, cancel := context.WithTimeout(c.ctx, d)
	context.AfterFunc(wait, func() {
		cancel()
		ch <- time.Now()
	})
	return ch
}
