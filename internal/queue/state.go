package queue

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Phase is what happens to the head of a lane.
type Phase int

const (
	// Idle: there is no task, or the head waits for its turn: for a run of its queue to end, a slot, the end of a pause.
	Idle Phase = iota
	// Waiting: the head may not start yet, because of a rate limit, or because it waits for a signal.
	Waiting
	// Running: the head runs.
	Running
	// Sleeping: the head has failed and waits for its next attempt.
	Sleeping
	// Stopped: no task is started any more.
	Stopped
)

// State is a snapshot of a queue.
type State struct {
	Name string
	// Length is the number of tasks in all lanes.
	Length int
	Shape
	Paused bool
	// Lanes are those with tasks. Running and Delayed of them run or have a failed head that does not run.
	Lanes, Running, Delayed int
	// Phase is that of a FIFO queue's lane; of a keyed queue the first one of Running, Sleeping and Waiting that a lane is in, else Idle.
	// The other fields belong to the lane that is first in this phase.
	Lane
	// Retry is the lane whose next attempt is next. Without one, its Phase is Idle.
	Retry Lane
}

// Lane is a snapshot of a lane.
type Lane struct {
	Key string
	// Tasks is the number of its tasks.
	Tasks int
	Phase Phase
	// Since is when the phase began.
	Since time.Time
	// Failures and LastError are those of the head.
	Failures  int
	LastError string
	// Delay is the time between the last failure and the next attempt, Left what remains of it; both are 0 unless
	// the head is Sleeping.
	Delay, Left time.Duration
	lane        *lane
}

// All yields the tasks of the lane, head first. It is valid within Look only.
func (l Lane) All() iter.Seq[Task] { return l.lane.all() }

func (l *lane) all() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for i := range l.tasks.len() {
			if !yield(l.tasks.at(i).Task) {
				return
			}
		}
	}
}

// Status describes the phase in words, and is empty for an idle queue.
func (l Lane) Status() string {
	switch l.Phase {
	case Waiting:
		return "wait until the first task may start"
	case Running:
		return "run first task"
	case Sleeping:
		return fmt.Sprintf("sleep after fail for %s (%s left of %s delay)", l.Delay, l.Left.Round(100*time.Millisecond), l.Delay)
	case Stopped:
		return "stop"
	}
	return ""
}

// Look shows every queue with its first lanes: the queue with the name first, then the others, sorted. Of its lanes it shows at most as
// many as limit, below 0 all: those that run come first, then those that wait for their next attempt, then the others in the order in which
// they became ready. Each queue is locked while look has it, so that nothing changes, for as long as it takes to show these lanes: look
// must be quick, must not call the Set, and must keep no task.
func (s *Set) Look(first string, limit int, look func(State, []Lane)) {
	queues := s.all()
	slices.SortFunc(queues, func(a, b *queue) int {
		switch {
		case a.name == b.name:
			return 0
		case a.name == first, b.name != first && a.name < b.name:
			return -1
		}
		return 1
	})
	for _, q := range queues {
		q.look(s.shape(q.name), limit, look)
	}
}

// LookQueue shows one queue as Look does, and reports whether there is one of the name.
func (s *Set) LookQueue(name string, limit int, look func(State, []Lane)) bool {
	q := s.find(name)
	if q != nil {
		q.look(s.shape(name), limit, look)
	}
	return q != nil
}

// LookLane shows one lane as Look does, and reports whether there is one of the queue and the key that has tasks.
func (s *Set) LookLane(name, key string, look func(Lane)) bool {
	q := s.find(name)
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.core.ripen(q.age())
	l := q.core.lane(key)
	if l == nil || l.tasks.len() == 0 {
		return false
	}
	look(q.lane(l))
	return true
}

// Failing reports whether tasks of an owner have failed and stay in a queue, other than the one that runs in the lane of a key.
func (s *Set) Failing(name, owner, key string) bool {
	q := s.find(name)
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.core.failing[owner]
	if l := q.core.lane(key); l != nil && l.phase == Running && l.head().Owner() == owner && l.failure(l.head()) != nil {
		n--
	}
	return n > 0
}

func (s *Set) shape(name string) Shape {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shapes[name]
}

func (q *queue) look(shape Shape, limit int, look func(State, []Lane)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.core.ripen(q.age()) // a queue that may start no run has no timer
	var lanes []Lane
	for _, l := range q.core.shown(limit) {
		lanes = append(lanes, q.lane(l))
	}
	look(q.state(shape), lanes)
}

// state requires the lock.
func (q *queue) state(shape Shape) State {
	c := &q.core
	state := State{
		Name: q.name, Length: c.length, Shape: shape, Paused: c.paused, Lanes: c.size(), Running: len(c.running), Delayed: c.delayed(),
		Lane: q.summary(),
	}
	state.Concurrency = c.width
	if c.sleeping.len() > 0 {
		state.Retry = q.lane(c.sleeping.min())
	}
	return state
}

// summary is the lane that stands for the queue.
func (q *queue) summary() Lane {
	c := &q.core
	switch {
	case len(c.running) > 0:
		return q.lane(c.running[0])
	case c.sleeping.len() > 0:
		return q.lane(c.sleeping.min())
	}
	var first *lane
	for h := range c.waiting() {
		if h != &c.changes && h != &c.initial && h.len() > 0 && (first == nil || h.min().seq < first.seq) {
			first = h.min()
		}
	}
	if first == nil {
		first = &c.single
	}
	return q.lane(first)
}

func (q *queue) lane(l *lane) Lane {
	s := Lane{Key: l.key, Tasks: l.tasks.len(), Phase: l.phase, Since: q.made.Add(l.began), lane: l}
	if q.stopped && l.phase != Running {
		s.Phase = Stopped
	}
	if l.tasks.len() > 0 {
		if f := l.failure(l.head()); f != nil {
			s.Failures, s.LastError = f.failures, f.last.Error()
		}
	}
	if s.Phase == Sleeping {
		s.Delay, s.Left = l.delay, max(0, l.due-q.age())
	}
	return s
}
