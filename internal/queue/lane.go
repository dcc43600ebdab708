package queue

import (
	"container/heap"
	"slices"
	"time"
)

// lane is the FIFO part of a queue for one key. Times are ages of the queue.
type lane struct {
	key   string
	tasks []entry
	// busy: the head has been taken. The phase, since began, is what happens to it: Idle is the wait for its turn.
	busy  bool
	phase Phase
	began time.Duration
	// front counts the tasks before the place of the next one that comes by addFirst: a busy head, and those that were put before others.
	front int
	// failed are the tasks that have failed, nearly always none or the head.
	failed []failed
	// delay is the time between the head's last failure and its next attempt, which is due, while it sleeps.
	delay, due time.Duration
	// outdated: Repeat was called for the head during its run.
	outdated bool
	// collects is the time until which the lane lets events collect. Last is the owner of the last run, unless that was
	// urgent or the lane was idle since.
	collects time.Duration
	last     string
	// token gives the token of the head back. A run uses it, unless it turns out to be blocked.
	token func()
	// until is the signal that a blocked lane waits for.
	until <-chan struct{}
	// seq orders lanes by the moment in which they became ready.
	seq uint64
	// in is the heap that the lane is in, at pos; nil for none.
	in  *laneHeap
	pos int
}

// failed counts the failures of a task.
type failed struct {
	task     Task
	failures int
	last     error
}

// entry is a task with the time since when it waits.
type entry struct {
	Task
	since time.Duration
}

func (l *lane) head() Task { return l.tasks[0].Task }

// failure returns the record of a task; nil if it has not failed.
func (l *lane) failure(t Task) *failed {
	for i := range l.failed {
		if l.failed[i].task == t {
			return &l.failed[i]
		}
	}
	return nil
}

// fail counts a failure of the head.
func (l *lane) fail(err error) *failed {
	f := l.failure(l.head())
	if f == nil {
		l.failed = append(l.failed, failed{task: l.head()})
		f = &l.failed[len(l.failed)-1]
	}
	f.failures++
	f.last = err
	return f
}

// forget removes the record of a task.
func (l *lane) forget(t Task) {
	l.failed = slices.DeleteFunc(l.failed, func(f failed) bool { return f.task == t })
	if len(l.failed) == 0 {
		l.failed = nil
	}
}

// remove takes the task at i out of the lane. It closes the gap from the nearer end, because the tasks before or behind it are few, and
// releases the entry.
func (l *lane) remove(i int) Task {
	t := l.tasks[i].Task
	switch {
	case len(l.tasks) == 1:
		l.tasks = nil
	case i > len(l.tasks)/2:
		l.tasks = slices.Delete(l.tasks, i, i+1)
	default:
		copy(l.tasks[1:], l.tasks[:i])
		l.tasks[0] = entry{}
		l.tasks = l.tasks[1:]
	}
	if i < l.front {
		l.front--
	}
	return t
}

// initial reports whether all tasks hold initial objects only. The newest task is the likeliest one to hold a change.
func (l *lane) initial() bool {
	for i := len(l.tasks) - 1; i >= 0; i-- {
		if t, ok := l.tasks[i].Task.(Backlog); !ok || !t.Initial() {
			return false
		}
	}
	return len(l.tasks) > 0
}

// laneHeap is a heap of lanes: by the moment in which they became ready, or by that in which their delay ends.
type laneHeap struct {
	lanes []*lane
	byDue bool
}

func (h *laneHeap) min() *lane { return h.lanes[0] }

func (h *laneHeap) less(a, b *lane) bool {
	if h.byDue && a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}

// first returns the first n lanes, in order; none below 1. It visits twice as many at most.
func (h *laneHeap) first(n int) []*lane {
	order := func(a, b *lane) int {
		if h.less(a, b) {
			return -1
		}
		return 1
	}
	if n >= len(h.lanes) {
		lanes := slices.Clone(h.lanes)
		slices.SortFunc(lanes, order)
		return lanes
	}
	var lanes, next []*lane // next are those whose parents are in lanes, in order
	if n > 0 {
		next = append(next, h.lanes[0])
	}
	for len(lanes) < n {
		l := next[0]
		lanes, next = append(lanes, l), next[1:]
		for child := 2*l.pos + 1; child <= 2*l.pos+2 && child < len(h.lanes); child++ {
			at, _ := slices.BinarySearchFunc(next, h.lanes[child], order)
			next = slices.Insert(next, at, h.lanes[child])
		}
	}
	return lanes
}

func (h *laneHeap) push(l *lane) {
	l.in = h
	heap.Push(h, l)
}

func (h *laneHeap) pop() *lane     { return heap.Pop(h).(*lane) }
func (h *laneHeap) remove(l *lane) { heap.Remove(h, l.pos) }

// Len and the methods below implement heap.Interface.
func (h *laneHeap) Len() int           { return len(h.lanes) }
func (h *laneHeap) Less(i, j int) bool { return h.less(h.lanes[i], h.lanes[j]) }

func (h *laneHeap) Swap(i, j int) {
	h.lanes[i], h.lanes[j] = h.lanes[j], h.lanes[i]
	h.lanes[i].pos, h.lanes[j].pos = i, j
}

func (h *laneHeap) Push(l any) {
	l.(*lane).pos = len(h.lanes)
	h.lanes = append(h.lanes, l.(*lane))
}

func (h *laneHeap) Pop() any {
	last := len(h.lanes) - 1
	l := h.lanes[last]
	h.lanes[last], l.in = nil, nil
	h.lanes = h.lanes[:last]
	return l
}
