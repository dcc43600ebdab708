package queue

import (
	"fmt"
	"iter"
	"slices"
	"time"
)

// Phase is what a queue's worker does.
type Phase int

const (
	// Idle: there is no task, or the queues do not run yet.
	Idle Phase = iota
	// Waiting: the head may not start yet, for instance because of a rate limit.
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
	Name   string
	Length int
	Phase  Phase
	// Since is when the phase began.
	Since time.Time
	// Failures and LastError are those of the head.
	Failures  int
	LastError string
	// Delay is the time between the last failure and the next attempt, Left what remains of it; both are 0 unless
	// the head is Sleeping.
	Delay, Left time.Duration
}

// Status describes the phase in words, and is empty for an idle queue.
func (s State) Status() string {
	switch s.Phase {
	case Waiting:
		return "wait until the first task may start"
	case Running:
		return "run first task"
	case Sleeping:
		return fmt.Sprintf("sleep after fail for %s (%s left of %s delay)", s.Delay, s.Left.Round(100*time.Millisecond), s.Delay)
	case Stopped:
		return "stop"
	}
	return ""
}

// Look shows every queue with its tasks, head first: the queue with the name first, then the others, sorted.
// Each queue is locked while look has it, so that nothing changes: look must be quick, must not call the Set, and
// must keep no task.
func (s *Set) Look(first string, look func(State, iter.Seq2[int, Task])) {
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
		q.look(look)
	}
}

func (q *queue) look(look func(State, iter.Seq2[int, Task])) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := State{Name: q.name, Length: q.tasks.len(), Phase: q.phase, Since: q.phaseBegan, Failures: q.failures}
	if q.lastError != nil {
		s.LastError = q.lastError.Error()
	}
	if q.phase == Sleeping {
		s.Delay, s.Left = q.delay, max(0, q.delay-time.Since(q.phaseBegan))
	}
	look(s, func(yield func(int, Task) bool) {
		for i := range q.tasks.len() {
			if !yield(i, q.tasks.at(i).Task) {
				return
			}
		}
	})
}

func (q *queue) setPhase(p Phase) {
	if q.phase != p {
		q.phase, q.phaseBegan = p, time.Now()
	}
}

func (q *queue) enter(p Phase) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setPhase(p)
}
