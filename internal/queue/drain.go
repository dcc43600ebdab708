package queue

import (
	"context"
	"time"
)

// Keyed is a task with the key of its lane.
type Keyed struct {
	Key  string
	Task Task
}

// Drain runs the tasks of one queue, one at a time, in the order and with the merging of a queue of a Set. It has no goroutine, and delays
// take no time. It returns when each task has succeeded or is exhausted, or with the error of ctx.
func Drain(ctx context.Context, tasks []Keyed) error {
	c := newCore(&Options{Backoff: func(int) time.Duration { return 0 }, Random: func() float64 { return 0 }})
	for _, t := range tasks {
		c.add(0, t.Key, t.Task)
	}
	var now time.Duration
	for ctx.Err() == nil {
		l := c.next(now, func() bool { return true })
		if l == nil {
			at, ok := c.wake()
			if !ok {
				return nil
			}
			now = at
			continue
		}
		c.settled(now, l, l.head().Run(ctx))
	}
	return ctx.Err()
}

// settled ends a run: the task is done, exhausted, or waits for its next attempt.
func (c *core) settled(now time.Duration, l *lane, err error) {
	if s, ok := l.head().(Splitter); ok {
		if rest := s.Rest(); rest != nil {
			c.split(now, l, rest)
		}
	}
	if err != nil {
		if v := c.judge(l, err); !v.exhausted {
			c.sleep(now, l, v)
			return
		}
	}
	c.done(now, l)
}
