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
	ring := func() {
		select {
		case ch <- time.Now():
		default:
		}
	}
	timer := time.AfterFunc(d, ring)
	context.AfterFunc(c.ctx, func() {
		timer.Stop()
		ring()
	})
	return ch
}
