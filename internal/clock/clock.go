// Package clock lends reflectors of client-go a clock on which they can be stopped.
//
// Callers may rely on this: a wait on the clock ends with its context, and leaves nothing behind when it is over.
package clock

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Within returns the real clock, but a wait on it ends with ctx. A reflector waits for its back-off without looking at a
// context, which would delay our end by as much.
func Within(ctx context.Context) clock.Clock { return stoppable{ctx: ctx} }

type stoppable struct {
	clock.RealClock
	ctx context.Context
}

func (c stoppable) After(d time.Duration) <-chan time.Time {
	ch := make(chan time.Time, 1)
	wait, cancel := context.WithTimeout(c.ctx, d)
	context.AfterFunc(wait, func() {
		cancel()
		ch <- time.Now()
	})
	return ch
}
