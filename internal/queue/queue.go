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
	// busy tells that the worker has taken the head: it waits to start, runs, or waits for its next attempt.
	busy bool
	// running tells that the head's Run is running: it may absorb nothing now.
	running bool
	// first is how many tasks behind the busy head came by addFirst.
	first int
	// failures and lastError are those of the head.
	failures  int
	lastError error
	// dropped tells that the busy head is not wanted any more.
	dropped bool
	// again has a token when the head is not to wait for its next attempt any longer.
	again chan struct{}
	// phase is what the worker does with the head, since phaseBegan.
	phase      Phase
	phaseBegan time.Time
	// delay is the time between the head's last failure and its next attempt, while it sleeps.
	delay time.Duration
}

// entry is a task with the time since when it waits, as the age that the queue had then.
type entry struct {
	Task
	since time.Duration
}

func (q *queue) age() time.Duration { return time.Since(q.made) }

func (q *queue) add(t Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.tasks.len(); n > 1 || n == 1 && !q.busy {
		if q.tasks.at(n - 1).Absorb(t) {
			return
		}
	}
	q.tasks.push(entry{t, q.age()})
	q.signal()
}

func (q *queue) addFirst(t Task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.first
	if q.busy {
		at++
	}
	q.tasks.insert(at, entry{t, q.age()})
	q.first++
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// work runs tasks until stop ends.
func (q *queue) work(stop, runs context.Context, opts *Options) {
	defer q.enter(Stopped)
	for {
		t, err := q.take(stop)
		if err != nil {
			return
		}
		for !q.attempt(stop, runs, t, opts) {
			if stop.Err() != nil {
				return
			}
		}
		removed := opts.action(q.name, "Remove")
		q.remove()
		removed()
	}
}

// take waits for a head and marks it busy.
func (q *queue) take(stop context.Context) (entry, error) {
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
		select {
		case <-q.wake:
		case <-stop.Done():
		}
	}
}

// attempt runs the head once and tells whether it is done. After a failure it waits for the delay.
func (q *queue) attempt(stop, runs context.Context, t entry, opts *Options) (done bool) {
	q.enter(Waiting)
	if err := t.Ready(stop); err != nil {
		if stop.Err() == nil {
			q.failed(stop, t, err, opts)
		}
		return false
	}
	if stop.Err() != nil {
		return false
	}
	if !q.begin(t) {
		return true
	}
	err := q.run(runs, t, opts)
	q.end()
	if err == nil {
		return true
	}
	if stop.Err() == nil {
		q.failed(stop, t, err, opts)
	}
	return false
}

// begin lets the head absorb what has come to stand directly behind it. It returns false when the head is not wanted
// any more.
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
	q.running = true
	q.setPhase(Running)
	if w, ok := t.Task.(Waiter); ok {
		w.Waited(q.age() - q.tasks.at(0).since)
	}
	return true
}

func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = false
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
	delay := opts.Backoff(q.failures)
	q.failures++
	failures := q.failures
	q.lastError = err
	q.delay = delay
	q.setPhase(Sleeping)
	q.tasks.setSince(0, q.age())
	q.mu.Unlock()
	if opts.OnFailure != nil {
		opts.OnFailure(q.name, t.Task, failures, err, delay)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-q.again:
	case <-stop.Done():
	}
}

// remove ends the head, which is done.
func (q *queue) remove() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks.removeAt(0)
	q.busy, q.dropped, q.failures, q.lastError = false, false, 0, nil
	select {
	case <-q.again: // it was meant for the head that has gone
	default:
	}
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
