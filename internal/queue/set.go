// Package queue runs tasks in named queues.
//
// Callers may rely on this:
//   - A queue has lanes, one for each key. A lane runs one task at a time, head first. A queue runs up to its concurrency of lanes at
//     the same time, in the order in which they became ready. A FIFO queue is one lane. Different queues run at the same time.
//   - A task that fails stays at the head of its lane and is retried after a delay, until it succeeds or is exhausted. It delays no other
//     lane.
//   - A task may absorb the one directly behind it in its lane: when that one is added, and just before it runs itself. Only
//     neighbours merge, so order never changes.
//   - A task whose run is Blocked stays at the head of its lane, with its token, and counts no failure. Its signal wakes this lane only.
//   - Tasks that wait can be dropped, whatever they wait for, and a back-off can be ended. A task that is running is not
//     dropped.
//   - Coalescing: a lane that has been busy lets events collect before it runs again, if that can save a run. An idle lane begins
//     immediately.
//   - A lane that waits for a token, a delay, a signal, more events or the end of a pause occupies no slot.
//   - A queue that is not kept ends when it is empty, and so does a lane.
//   - Runs start by signal. An idle queue has no goroutine and uses no CPU.
//   - A task that waits takes 24 bytes besides itself, a lane that waits less than 1 KiB.
//
// Not attempted: persistence, and limits on the length.
package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// Task is a unit of work. Tasks are comparable. All methods but Run are called with the queue's lock held: they must be quick
// and must not call the queue.
type Task interface {
	// Ready reserves what a start needs, such as a token of a rate limit, and returns the time until it is there. Cancel gives it
	// back; it may be nil.
	Ready() (wait time.Duration, cancel func())
	// Run makes one attempt. Nil means that the task is done. An error may implement Failure.
	Run(ctx context.Context) error
	// Absorb takes over the work of the task directly behind, which then leaves the queue, or returns false.
	// It is never called while Run is running.
	Absorb(behind Task) bool
	// Owner is whose token Ready reserves; empty for none.
	Owner() string
	// Policy is what follows a failure.
	Policy() Policy
}

// Backlog is a Task that may hold only objects that existed before.
type Backlog interface {
	// Initial reports that it does. Other tasks of a keyed queue start earlier.
	Initial() bool
}

// Starter is a Task that receives its start directly before Run.
type Starter interface{ Starting(Start) }

// Start describes an attempt.
type Start struct {
	Key string
	// Failures is how often the task has failed since its attempts began.
	Failures int
	// Waited is the time since the task was added, or since its last failure.
	Waited time.Duration
}

// Splitter is a Task whose Run may leave a part of its work to a task of its own.
type Splitter interface {
	// Rest is called once after each Run, and returns that task; nil means none. It goes behind the head, with the head's failures before this
	// run, so that the order of the lane and the attempts of its work stay as they are.
	Rest() Task
}

// Replacer is a Task that may make work superfluous that waits in its lane.
type Replacer interface {
	// Replace is called before the task is added, for the waiting tasks from the last one on until it returns done. Empty reports that nothing
	// is left of the waiting task, which then leaves the queue.
	Replace(waiting Task) (empty, done bool)
}

// Policy decides what follows a failure. The zero value is Options.Backoff, without a limit.
type Policy struct {
	// MinDelay doubles with each failure, up to MaxDelay; 0 means Options.Backoff.
	MinDelay, MaxDelay time.Duration
	// Limit is the number of attempts; 0 means no limit.
	Limit int
}

// Failure is an error of Run that decides about the next attempt.
type Failure interface {
	error
	// GiveUp reports that there must be none: the task is exhausted.
	GiveUp() bool
	// RetryAfter is the delay before it, unless ok is false.
	RetryAfter() (delay time.Duration, ok bool)
}

// Blocked is an error of Run that is no attempt: nothing was done, and nothing is reported.
type Blocked interface {
	error
	// Until returns the signal after which Run is called again: when the channel is closed, or after the longest time.
	Until() (signal <-chan struct{}, most time.Duration)
}

func decision(err error) (giveUp bool, delay time.Duration, given bool) {
	var f Failure
	if !errors.As(err, &f) {
		return false, 0, false
	}
	delay, given = f.RetryAfter()
	return f.GiveUp(), delay, given
}

// Failed describes a failure. Delay is the time until the next attempt, and 0 for an exhausted task.
type Failed struct {
	Queue, Key string
	Task       Task
	Failures   int
	Err        error
	Delay      time.Duration
}

// Options of a Set. Backoff is required.
type Options struct {
	// Backoff is the delay before the next attempt of a task without a Policy, given how often the task had failed before.
	Backoff func(failures int) time.Duration
	// Random returns a number in [0, 1) for the jitter of a Policy.
	Random func() float64
	// Coalescing is how long a lane lets events collect after a run that took so long and has left tasks; nil for no time. It begins at once
	// with tasks that are no Collector.
	Coalescing func(ran time.Duration) time.Duration
	// MaxRuns is the largest number of runs in flight of all queues together; 0 means no limit.
	MaxRuns int
	// OnFailure is called for each failure after which there is another attempt, and before it OnPanic if the task panicked. OnExhausted
	// is called for others; the next task of the lane starts when it has returned.
	OnFailure, OnExhausted func(Failed)
	OnPanic                func(queue string, t Task, reason any, stack []byte)
	// OnAction receives the duration of an operation: "AddLast", "AddFirst" or "Remove". It must be quick.
	OnAction func(queue, action string, took time.Duration)
	// OnEnd receives the name of a queue that has ended.
	OnEnd func(queue string)
}

// action measures an operation: call it before, and what it returns after.
func (o *Options) action(queue, name string) func() {
	if o.OnAction == nil {
		return func() {}
	}
	started := time.Now()
	return func() { o.OnAction(queue, name, time.Since(started)) }
}

// Shape is the form of a queue. The zero value is a FIFO queue.
type Shape struct {
	// Keyed: tasks are added with keys.
	Keyed bool
	// Concurrency is the largest number of runs in flight; 0 means 1.
	Concurrency int
}

// Set is a set of named queues. It is safe for concurrent use.
type Set struct {
	opts Options
	// slots is nil without MaxRuns.
	slots *slots

	mu     sync.Mutex
	queues map[string]*queue
	// shapes has the queues that stay when they are empty; nil means that all stay.
	shapes map[string]Shape
	// paused are the queues that are paused.
	paused map[string]bool
	// running is set while Run starts runs.
	running *running
}

// Delay is about how long the queues wait after a failure.
func (s *Set) Delay(p Policy, failures int) time.Duration { return s.opts.delay(p, failures) }

// running is a call of Run, and the goroutines of its runs.
type running struct {
	stop, runs context.Context
	workers    sync.WaitGroup
}

// NewSet returns a Set without queues.
func NewSet(opts Options) *Set {
	if opts.Random == nil {
		opts.Random = rand.Float64
	}
	s := &Set{opts: opts, queues: map[string]*queue{}, paused: map[string]bool{}}
	if opts.MaxRuns > 0 {
		s.slots = &slots{limit: opts.MaxRuns}
	}
	return s
}

// Run runs the tasks of all queues, those that are added later included. When stop ends no run starts any
// more, and Run returns as soon as those that are running have ended. Tasks run with the context runs.
func (s *Set) Run(stop, runs context.Context) error {
	state := &running{stop: stop, runs: runs}
	for _, q := range s.setRunning(state) {
		q.enable(state)
	}
	<-stop.Done()
	for _, q := range s.setRunning(nil) {
		q.disable()
	}
	state.workers.Wait()
	return nil
}

// setRunning returns the queues that there are; later ones get the state when they are made.
func (s *Set) setRunning(state *running) []*queue {
	s.mu.Lock()
	s.running = state
	s.mu.Unlock()
	return s.all()
}

// queue returns the queue of a name, which it makes if there is none.
func (s *Set) queue(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[name]
	if !ok {
		q = newQueue(s, name)
		s.queues[name] = q
		q.running = s.running
		q.core.width = max(1, s.shapes[name].Concurrency)
		q.core.paused = s.paused[name]
	}
	return q
}

// Add appends a task to the lane of a key, unless the last one there absorbs it.
func (s *Set) Add(name, key string, t Task) {
	defer s.opts.action(name, "AddLast")()
	s.change(name, func(q *queue, now time.Duration) { q.core.add(now, key, t) })
}

// AddFirst puts a task before everything that waits in a lane, but behind the one that is running or
// being tried again, and behind those that came by AddFirst before and still wait.
func (s *Set) AddFirst(name, key string, t Task) {
	defer s.opts.action(name, "AddFirst")()
	s.change(name, func(q *queue, now time.Duration) { q.core.addFirst(now, key, t) })
}

// change changes a queue, which it makes if there is none.
func (s *Set) change(name string, do func(*queue, time.Duration)) {
	for {
		q := s.queue(name)
		if q.change(func(now time.Duration) { do(q, now) }) {
			return
		} // it has ended in between
	}
}

// Visit hands out the tasks of every queue, in no order, the running ones included.
func (s *Set) Visit(visit func(queue string, tasks []Task)) {
	for _, q := range s.all() {
		visit(q.name, q.list())
	}
}

func (q *queue) list() []Task {
	q.mu.Lock()
	defer q.mu.Unlock()
	tasks := make([]Task, 0, q.core.length)
	for l := range q.core.all() {
		for t := range l.all() {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

func (s *Set) all() []*queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	queues := make([]*queue, 0, len(s.queues))
	for _, q := range s.queues {
		queues = append(queues, q)
	}
	return queues
}

// find returns the queue of a name; nil if there is none.
func (s *Set) find(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[name]
}
