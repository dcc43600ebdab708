// Package queue runs tasks in named queues.
//
// Callers may rely on this:
//   - A queue runs one task at a time, head first. Different queues run at the same time.
//   - A task that fails stays at the head and is retried after a delay, until it succeeds. Nothing behind it runs
//     until then.
//   - A task may absorb the one directly behind it: when that one is added, and just before it runs itself. Only
//     neighbours merge, so order never changes.
//   - Tasks that wait can be dropped, whatever they wait for, and a back-off can be ended. A task that is running is not
//     touched.
//   - A queue that is not kept ends with its worker when it is empty.
//   - Workers wake by signal. An idle queue uses no CPU.
//   - A long queue is never copied: besides the task itself, one that waits takes 24 bytes.
//
// Not attempted: persistence, and limits on the length.
package queue

import (
	"context"
	"sync"
	"time"
)

// Task is a unit of work. Absorb and String are called with the queue's lock held: they must be quick
// and must not call the queue.
type Task interface {
	// Ready waits until the task may start. An error means that it never may.
	Ready(ctx context.Context) error
	// Run makes one attempt. Nil means that the task is done.
	Run(ctx context.Context) error
	// Absorb takes over the work of the task directly behind, which then leaves the queue, or returns false.
	// It is never called while Run is running.
	Absorb(behind Task) bool
	// String describes the task on one line.
	String() string
}

// Waiter is a Task that receives how long it has waited since it was added, or since its last failure.
type Waiter interface {
	Waited(time.Duration)
}

// Options of a Set. Backoff is required.
type Options struct {
	// Backoff is the delay before the next attempt, given how often the task had failed before.
	Backoff func(failures int) time.Duration
	// OnFailure is called for each failure, and before it OnPanic if the task panicked.
	OnFailure func(queue string, t Task, failures int, err error, delay time.Duration)
	OnPanic   func(queue string, t Task, reason any, stack []byte)
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

// Set is a set of named queues. It is safe for concurrent use.
type Set struct {
	opts Options

	mu     sync.Mutex
	queues map[string]*queue
	// kept are the names of the queues that stay when they are empty; nil means all.
	kept map[string]bool
	// running is set while Run takes new queues.
	running *running
}

type running struct {
	stop, runs context.Context
	workers    sync.WaitGroup
}

// NewSet returns a Set without queues.
func NewSet(opts Options) *Set {
	return &Set{opts: opts, queues: map[string]*queue{}}
}

// Run runs the tasks of all queues, those that are added later included. When stop ends no run starts any
// more, and Run returns as soon as those that are running have ended. Tasks run with the context runs.
func (s *Set) Run(stop, runs context.Context) error {
	state := &running{stop: stop, runs: runs}
	s.mu.Lock()
	s.running = state
	for _, q := range s.queues {
		s.work(q)
	}
	s.mu.Unlock()
	<-stop.Done()
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	state.workers.Wait()
	return nil
}

func (s *Set) work(q *queue) {
	state := s.running
	state.workers.Go(func() { q.work(state.stop, state.runs, s) })
}

// queue returns the queue of a name, which it makes if there is none.
func (s *Set) queue(name string) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, ok := s.queues[name]
	if !ok {
		q = newQueue(name)
		s.queues[name] = q
		if s.running != nil {
			s.work(q)
		}
	}
	return q
}

// Add appends a task to a queue, unless the last one there absorbs it.
func (s *Set) Add(name string, t Task) {
	defer s.opts.action(name, "AddLast")()
	for !s.queue(name).add(t) { // it has ended in between
	}
}

// AddFirst puts a task before everything that waits in a queue, but behind the one that is running or
// being tried again, and behind those that came by AddFirst before and still wait.
func (s *Set) AddFirst(name string, t Task) {
	defer s.opts.action(name, "AddFirst")()
	for !s.queue(name).addFirst(t) {
	}
}

// Visit hands out the tasks of every queue, in no order, the running one included.
func (s *Set) Visit(visit func(queue string, tasks []Task)) {
	for _, q := range s.all() {
		visit(q.name, q.list())
	}
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

// Len is the number of tasks in a queue, the running one included.
func (s *Set) Len(name string) int {
	s.mu.Lock()
	q := s.queues[name]
	s.mu.Unlock()
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tasks.len()
}
