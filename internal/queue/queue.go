package queue

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// queue is one named queue.
type queue struct {
	name string
	made time.Time
	// wake has a token when there may be something to do. Only the worker takes it.
	wake chan struct{}

	mu    sync.Mutex
	tasks deque
	// busy: the worker has taken the head. The phase is the step of the worker.
	busy bool
	// first is how many tasks behind the busy head came by addFirst.
	first int
	// failures and lastError are those of the head.
	failures  int
	lastError error
	// dropped: the busy head is to be removed without another run.
	dropped bool
	// interrupt ends the worker's wait while the phase is Waiting or Sleeping, and does nothing otherwise.
	interrupt context.CancelFunc
	// phase is what the worker does with the head, since phaseBegan.
	phase      Phase
	phaseBegan time.Time
	// delay is the time between the head's last failure and its next attempt, while it sleeps.
	delay time.Duration
	// ended: the worker has ended, and the Set no longer has the queue.
	ended bool
}

func newQueue(name string) *queue {
	return &queue{name: name, made: time.Now(), wake: make(chan struct{}, 1), interrupt: func() {}}
}

// entry is a task with the time since when it waits, as the age that the queue had then.
type entry struct {
	Task
	since time.Duration
}

func (q *queue) age() time.Duration { return time.Since(q.made) }

// add appends a task. It returns false when the queue has ended.
func (q *queue) add(t Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	if n := q.tasks.len(); n > 1 || n == 1 && !q.busy {
		if q.tasks.at(n - 1).Absorb(t) {
			return true
		}
	}
	q.tasks.push(entry{t, q.age()})
	q.signal()
	return true
}

func (q *queue) addFirst(t Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return false
	}
	at := q.first
	if q.busy {
		at++
	}
	q.tasks.insert(at, entry{t, q.age()})
	q.first++
	q.signal()
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// work runs tasks until stop ends, or until the Set does not want the queue any more.
func (q *queue) work(stop, runs context.Context, s *Set) {
	for {
		t, err := q.take(stop, s)
		if err != nil {
			q.enter(Stopped)
			return
		}
		if t.Task == nil {
			if s.opts.OnEnd != nil {
				s.opts.OnEnd(q.name)
			}
			return
		}
		for !q.attempt(stop, runs, t, &s.opts) {
			if stop.Err() != nil {
				q.enter(Stopped)
				return
			}
		}
		removed := s.opts.action(q.name, "Remove")
		q.remove()
		removed()
	}
}

// take waits for a head and marks it busy. It returns no task when the queue has ended.
func (q *queue) take(stop context.Context, s *Set) (entry, error) {
	for {
		if err := stop.Err(); err != nil {
			return entry{}, err
		}
		q.mu.Lock()
		if q.tasks.len() > 0 {
			head := q.tasks.at(0)
			if !q.busy { // else it was taken before, by a worker that has been stopped
				q.busy = true
				q.first = max(0, q.first-1)
			}
			q.mu.Unlock()
			return head, nil
		}
		q.setPhase(Idle)
		q.mu.Unlock()
		if s.end(q) {
			return entry{}, nil
		}
		select {
		case <-q.wake:
		case <-stop.Done():
		}
	}
}

// attempt runs the head once and returns true when it is done with. After a failure it waits for the delay.
func (q *queue) attempt(stop, runs context.Context, t entry, opts *Options) (done bool) {
	ctx, dropped := q.wait(stop)
	if dropped {
		return true
	}
	err := t.Ready(ctx)
	q.interrupt()
	switch {
	case stop.Err() != nil:
		return false
	case q.isDropped():
		return true
	case err != nil:
		q.failed(stop, t, err, opts)
		return false
	case !q.begin(t):
		return true
	}
	err = q.run(runs, t, opts)
	q.end()
	if err == nil {
		return true
	}
	if stop.Err() == nil {
		q.failed(stop, t, err, opts)
	}
	return false
}

// wait begins the wait of the head until it is ready. The context ends when the head is dropped.
func (q *queue) wait(stop context.Context) (ctx context.Context, dropped bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped {
		return nil, true
	}
	q.setPhase(Waiting)
	ctx, q.interrupt = context.WithCancel(stop)
	return ctx, false
}

func (q *queue) isDropped() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// begin makes the head absorb its neighbours. It returns false when the head has been dropped.
func (q *queue) begin(t entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped {
		return false
	}
	for q.tasks.len() > 1 && t.Absorb(q.tasks.at(1).Task) {
		q.tasks.removeAt(1)
		q.first = max(0, q.first-1)
	}
	q.setPhase(Running)
	if w, ok := t.Task.(Waiter); ok {
		w.Waited(q.age() - q.tasks.at(0).since)
	}
	return true
}

func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setPhase(Idle)
}

// run is the boundary at which a panic becomes a failure of the task.
func (q *queue) run(ctx context.Context, t entry, opts *Options) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
			if opts.OnPanic != nil {
				opts.OnPanic(q.name, t.Task, reason, debug.Stack())
			}
		}
	}()
	return t.Run(ctx)
}

// failed records a failure and waits for the next attempt.
func (q *queue) failed(stop context.Context, t entry, err error, opts *Options) {
	q.mu.Lock()
	if q.dropped { // since the run has ended
		q.mu.Unlock()
		return
	}
	delay := opts.Backoff(q.failures)
	q.failures++
	failures := q.failures
	q.lastError = err
	q.delay = delay
	q.setPhase(Sleeping)
	q.tasks.setSince(0, q.age())
	sleep, end := context.WithTimeout(stop, delay)
	defer end()
	q.interrupt = end
	q.mu.Unlock()
	if opts.OnFailure != nil {
		opts.OnFailure(q.name, t.Task, failures, err, delay)
	}
	<-sleep.Done()
}

// remove ends the head, which is done.
func (q *queue) remove() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks.removeAt(0)
	q.busy, q.dropped, q.failures, q.lastError = false, false, 0, nil
}

func (q *queue) list() []Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	tasks := make([]Task, q.tasks.len())
	for i := range tasks {
		tasks[i] = q.tasks.at(i).Task
	}
	return tasks
}
