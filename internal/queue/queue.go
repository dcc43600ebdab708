package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// queue is one named queue: a core with a lock, a clock, and a goroutine for each run in flight.
type queue struct {
	name string
	made time.Time
	set  *Set

	mu   sync.Mutex
	core core
	// running is set while runs may start.
	running *running
	// stopped: runs could start before, and no longer do. ended: the Set no longer has the queue.
	stopped, ended bool
	// granted is a slot that came while the queue waited for one.
	granted bool
	// timer calls start at wakeAt, the age at which core may start more; 0 if it is not set.
	timer  *time.Timer
	wakeAt time.Duration
}

func newQueue(s *Set, name string) *queue {
	return &queue{name: name, made: time.Now(), set: s, core: newCore(&s.opts)}
}

func (q *queue) age() time.Duration { return time.Since(q.made) }

// change changes the core and starts what may start then. It returns false when the queue has ended.
func (q *queue) change(do func(now time.Duration)) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	now := q.age()
	q.core.ripen(now) // lanes are in the order in which they became ready
	do(now)
	q.start(now)
	return true
}

// start starts runs as long as one may start, each in a goroutine, and sets the timer for the next one. It requires mu.
func (q *queue) start(now time.Duration) {
	for l, t := q.next(now); l != nil; l, t = q.next(now) {
		state := q.running
		state.workers.Go(func() { q.work(state, l, t) })
	}
}

// next starts at most one run, which the caller has to execute. It requires mu.
func (q *queue) next(now time.Duration) (*lane, Task) {
	if q.running == nil || q.running.stop.Err() != nil {
		return nil, nil
	}
	if l := q.core.next(now, q.slot); l != nil {
		return l, l.head()
	}
	q.schedule(now)
	return nil, nil
}

// slot takes a slot for a run: one that was granted, or a free one.
func (q *queue) slot() bool {
	if q.granted {
		q.granted = false
		return true
	}
	return q.set.slots == nil || q.set.slots.take(q)
}

// grant gives the queue a slot, and returns false if it no longer needs one.
func (q *queue) grant() (used bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.granted = true
	q.start(q.age())
	used = !q.granted
	q.granted = false
	return used
}

// schedule sets the timer. One that is no longer needed does no harm.
func (q *queue) schedule(now time.Duration) {
	at, ok := q.core.wake()
	switch {
	case !ok || at == q.wakeAt:
		return
	case q.timer == nil:
		q.timer = time.AfterFunc(at-now, func() { q.change(func(time.Duration) { q.wakeAt = 0 }) })
	default:
		q.timer.Reset(at - now)
	}
	q.wakeAt = at
}

// work executes runs of the queue until none may start.
func (q *queue) work(state *running, l *lane, t Task) {
	for l != nil {
		err := q.run(state.runs, t)
		if failed, exhausted := q.finish(state, l, t, err); failed.Failures > 0 {
			q.report(failed, exhausted)
			if exhausted {
				q.leave(l)
			}
		}
		if q.set.slots != nil {
			q.set.slots.release()
		}
		l, t = q.proceed()
	}
	q.set.tidy(q)
}

// split adds what the run has left to another task, before it ends.
func (q *queue) split(l *lane, t Task) {
	s, ok := t.(Splitter)
	if !ok {
		return
	}
	if rest := s.Rest(); rest != nil {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.core.split(q.age(), l, rest)
	}
}

// finish ends a run. The lane of an exhausted task stays busy.
func (q *queue) finish(state *running, l *lane, t Task, err error) (f Failed, exhausted bool) {
	q.split(l, t)
	if err == nil {
		q.leave(l)
		return f, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if state.stop.Err() != nil { // its result no longer counts
		q.core.ended(q.age(), l)
		return f, false
	}
	if blocked := Blocked(nil); errors.As(err, &blocked) {
		until, most := blocked.Until()
		q.core.block(q.age(), l, until)
		state.workers.Go(func() { q.await(state, l, until, most) })
		return f, false
	}
	v := q.core.judge(l, err)
	if !v.exhausted {
		q.core.sleep(q.age(), l, v)
	}
	if l.outdated {
		q.core.again(q.age(), l)
	}
	return Failed{Queue: q.name, Key: l.key, Task: t, Failures: v.failures, Err: err, Delay: v.delay}, v.exhausted
}

// await makes a blocked lane ready after its signal, or after the longest time.
func (q *queue) await(state *running, l *lane, until <-chan struct{}, most time.Duration) {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-until:
	case <-late.C:
	case <-state.stop.Done():
		return
	}
	q.change(func(now time.Duration) { q.core.unblock(now, l, until) })
}

// leave takes the head out of its lane, whose run is over.
func (q *queue) leave(l *lane) {
	defer q.set.opts.action(q.name, "Remove")()
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.age()
	q.core.ripen(now)
	q.core.done(now, l)
}

// proceed starts what may start after a run, and returns the run that the caller executes.
func (q *queue) proceed() (*lane, Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.age()
	l, t := q.next(now)
	if l != nil {
		q.start(now)
	}
	return l, t
}

func (q *queue) report(f Failed, exhausted bool) {
	o := &q.set.opts
	switch {
	case exhausted && o.OnExhausted != nil:
		o.OnExhausted(f)
	case !exhausted && o.OnFailure != nil:
		o.OnFailure(f)
	}
}

// run is the boundary at which a panic becomes a failure of the task.
func (q *queue) run(ctx context.Context, t Task) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
			if q.set.opts.OnPanic != nil {
				q.set.opts.OnPanic(q.name, t, reason, debug.Stack())
			}
		}
	}()
	return t.Run(ctx)
}

// enable lets runs start.
func (q *queue) enable(state *running) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running, q.stopped = state, false
	q.start(q.age())
}

// disable prevents further runs. The waits of lanes end.
func (q *queue) disable() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running, q.stopped = nil, true
	q.core.halt(q.age())
	if q.timer != nil {
		q.timer.Stop()
		q.wakeAt = 0
	}
}
