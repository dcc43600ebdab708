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
	// Idle: there is no task, or the head waits for its turn: for a run of its queue to end, a place, the end of a pause.
	Idle Phase = iota
	// Waiting: the head may not start yet, because of a rate limit.
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
	// Lanes are those with tasks. Running and Delayed of them run or have a failed head that does not run. Bypassed are the tasks
	// of paused owners.
	Lanes, Running, Delayed, Bypassed int
	// Phase is that of a FIFO queue's lane; of a keyed queue the first one of Running, Sleeping and Waiting that a lane is in, else Idle.
	// The other fields belong to the lane that was longest in this phase.
	Lane
}

// Lane is a snapshot of a lane.
type Lane struct {
	Key string
	// Tasks is the number of its tasks, those of paused owners included.
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

// All yields the tasks of the lane, head first, those of paused owners last. It is valid within Look only.
func (l Lane) All() iter.Seq[Task] { return l.lane.all() }

func (l *lane) all() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for i := range l.tasks.len() {
			if !yield(l.tasks.at(i).Task) {
				return
			}
		}
		for _, e := range l.bypassed {
			if !yield(e.Task) {
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

// Look shows every queue with its lanes: the queue with the name first, then the others, sorted. Lanes that run come first, then failed
// ones, then the others in the order in which they became ready. Each queue is locked while look has it, so that nothing changes: look must
// be quick, must not call the Set, and must keep no task.
func (s *Set) Look(first string, look func(State, []Lane)) {
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
	s.mu.Lock()
	shapes := s.shapes
	s.mu.Unlock()
	for _, q := range queues {
		q.look(shapes[q.name], look)
	}
}

func (q *queue) look(shape Shape, look func(State, []Lane)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.core
	c.ripen(q.age()) // a queue that may start no run has no timer
	state := State{Name: q.name, Length: c.length, Shape: shape, Paused: c.paused, Running: c.running, Delayed: c.delayed()}
	state.Concurrency = c.width
	var lanes []Lane
	for _, l := range c.sorted() {
		lanes = append(lanes, q.lane(l))
		state.Bypassed += len(l.bypassed)
	}
	state.Lanes = len(lanes)
	state.Lane = q.summary(lanes)
	look(state, lanes)
}

// summary is the lane that stands for the queue.
func (q *queue) summary(lanes []Lane) Lane {
	for _, phase := range []Phase{Running, Sleeping, Waiting} {
		for _, l := range lanes {
			if l.Phase == phase {
				return l
			}
		}
	}
	l := q.lane(&q.core.single)
	return l
}

func (q *queue) lane(l *lane) Lane {
	s := Lane{Key: l.key, Tasks: l.tasks.len() + len(l.bypassed), Phase: l.phase, Since: q.made.Add(l.began), lane: l}
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
