package kube

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Clock returns the real clock, but a wait on it ends with ctx. A reflector ignores contexts while it backs off, which
// would delay the shutdown.
func Clock(ctx context.Context) clock.Clock { return stoppable{ctx: ctx} }

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
