package queue

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"
)

// Phase is what happens to the head of a lane.
type Phase string

const (
	// Idle: there is no task, or the head waits for its turn: for a run of its queue to end, a slot, the end of a pause.
	Idle Phase = ""
	// Waiting: the head may not start yet, because of a rate limit, or because it waits for a signal.
	Waiting Phase = "waiting"
	// Running: the head runs.
	Running Phase = "running"
	// Collecting: the lane has been busy, and lets events collect for its next run.
	Collecting Phase = "collecting"
	// Sleeping: the head has failed and waits for its next attempt.
	Sleeping Phase = "sleeping"
	// Stopped: no task is started any more.
	Stopped Phase = "stopped"
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
	// Matching is the number of lanes whose keys contain the text that was searched for.
	Matching int
	// Phase is the phase of a FIFO queue's lane; of a keyed queue the first one of Running, Sleeping and Waiting or Collecting that a lane is
	// in, else Idle.
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
	// Failures and LastError are about the head. LastError is the line that an error has for people, if it has one.
	Failures  int
	LastError string
	// Delay is the time between the last failure and the next attempt, Left what remains of it; both are 0 unless
	// the head is Sleeping.
	Delay, Left time.Duration
	// Until is when a lane that is Collecting runs.
	Until time.Time
	lane  *lane
}

// All yields the tasks of the lane, head first. It is valid within Look only.
func (l Lane) All() iter.Seq[Task] { return l.lane.all() }

func (l *lane) all() iter.Seq[Task] {
	return func(yield func(Task) bool) {
		for _, e := range l.tasks {
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
	case Collecting:
		return "collects events until " + l.Until.UTC().Format("15:04:05.000Z")
	case Running:
		return "run first task"
	case Sleeping:
		return fmt.Sprintf("sleep after fail for %s (%s left of %s delay)", l.Delay, l.Left.Round(100*time.Millisecond), l.Delay)
	case Stopped:
		return "stop"
	}
	return ""
}

// Names are the names of all queues, also of queues that are paused before they have had a task: the first one, if it is there, then the
// others, sorted.
func (s *Set) Names(first string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := maps.Clone(s.paused)
	for name := range s.queues {
		names[name] = true
	}
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(last(a != first), last(b != first)), cmp.Compare(a, b))
	})
}

// last sorts what is true behind the rest.
func last(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Look shows a queue and its first lanes, at most as many as limit, below 0 all, and reports whether there is one of the name. Lanes that
// wait for their next attempt come first, by its time, then those that run, failed ones first, then the others in the order in which they
// became ready. With a text, only lanes whose keys contain it are shown: those whose head has failed first, then the others, by key.
// The queue is locked while look has it, so that nothing changes, for as long as it takes to show these lanes, or to search all of them for
// a text: look must be quick, must not call the Set, and must keep no task.
func (s *Set) Look(name, text string, limit int, look func(State, []Lane)) bool {
	q := s.find(name)
	if q == nil {
		return false
	}
	shape := s.shape(name)
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.core
	c.ripen(q.age()) // a queue that may start no run has no timer
	if limit < 0 {
		limit = c.size()
	}
	found, matching := c.shown(limit), c.size()
	if text != "" {
		found, matching = c.search(text, limit)
	}
	lanes := make([]Lane, len(found))
	for i, l := range found {
		lanes[i] = q.lane(l)
	}
	state := q.state(shape)
	state.Matching = matching
	look(state, lanes)
	return true
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
	if l == nil || len(l.tasks) == 0 {
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

// state requires the lock.
func (q *queue) state(shape Shape) State {
	c := &q.core
	state := State{
		Name: q.name, Length: c.length, Shape: shape, Paused: c.paused, Lanes: c.size(), Running: len(c.running), Delayed: c.delayed(),
		Lane: q.summary(),
	}
	state.Concurrency = c.width
	if c.sleeping.Len() > 0 {
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
	case c.sleeping.Len() > 0:
		return q.lane(c.sleeping.min())
	}
	var first *lane
	for h := range c.waiting() {
		if h != &c.changes && h != &c.initial && h.Len() > 0 && (first == nil || h.min().seq < first.seq) {
			first = h.min()
		}
	}
	if first == nil {
		first = &c.single
	}
	return q.lane(first)
}

func causeOf(err error) string {
	if c, ok := errors.AsType[interface {
		error
		Cause() string
	}](err); ok {
		return c.Cause()
	}
	return err.Error()
}

func (q *queue) lane(l *lane) Lane {
	s := Lane{Key: l.key, Tasks: len(l.tasks), Phase: l.phase, Since: q.made.Add(l.began), lane: l}
	if q.stopped && l.phase != Running {
		s.Phase = Stopped
	}
	if len(l.tasks) > 0 {
		if f := l.failure(l.head()); f != nil {
			s.Failures, s.LastError = f.failures, causeOf(f.last)
		}
	}
	switch s.Phase {
	case Sleeping:
		s.Delay, s.Left = l.delay, max(0, l.due-q.age())
	case Collecting:
		s.Until = q.made.Add(l.due)
	}
	return s
}
