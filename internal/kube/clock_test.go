package kube

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clock, began := Clock(ctx), time.Now()
		if <-clock.After(time.Minute); time.Since(began) != time.Minute {
			t.Errorf("a minute took %s", time.Since(began))
		}
		began = time.Now()
		wait := clock.After(time.Hour)
		time.AfterFunc(time.Second, cancel)
		if <-wait; time.Since(began) != time.Second {
			t.Errorf("the wait ended %s after it began, not with its context", time.Since(began))
		}
		if <-clock.After(time.Hour); time.Since(began) != time.Second {
			t.Error("a wait began after the end of its context")
		}
	})
}

// countingContext counts the waits for its end.
type countingContext struct {
	context.Context
	waiting *atomic.Int64
}

// Value hides the standard context inside, so that package context calls AfterFunc.
func (c countingContext) Value(any) any { return nil }

func (c countingContext) AfterFunc(f func()) (stop func() bool) {
	c.waiting.Add(1)
	forget := context.AfterFunc(c.Context, f)
	return func() bool {
		forgotten := forget()
		if forgotten {
			c.waiting.Add(-1)
		}
		return forgotten
	}
}

// An outage of a day has thousands of waits.
func TestForgetsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var waiting atomic.Int64
		clock := Clock(countingContext{ctx, &waiting})
		for range 10 {
			<-clock.After(time.Second)
		}
		synctest.Wait()
		if n := waiting.Load(); n != 0 {
			t.Errorf("%d of 10 waits are still remembered after their end", n)
		}
	})
}
