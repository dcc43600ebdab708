package pending

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Requeues are the events that hooks get again later. It is safe for concurrent use.
type Requeues struct {
	mu  sync.Mutex
	due byDue
	of  map[Subject]*requeue
	// waiting is the number of requeues that wait for room.
	waiting int
	// changed has a token when the first one has changed.
	changed chan struct{}
}

// requeue is an event that is due at a time. The run-th run of the operator has requested it.
type requeue struct {
	subject Subject
	event   event.Event
	at      time.Time
	run     uint64
	// pos is the index in due, or waits.
	pos int
}

// waits is the pos of a requeue that has no time: it waits, since at, for room among the parked contexts.
const waits = -1

// Deletion is an object whose clean-up has another step, which is due at a time.
type Deletion struct {
	Object event.Object
	Due    time.Time
}

// NewRequeues returns Requeues without any.
func NewRequeues() *Requeues {
	return &Requeues{of: map[Subject]*requeue{}, changed: make(chan struct{}, 1)}
}

// Set replaces the requeue of the event's subject, as the run-th run has requested.
func (r *Requeues) Set(ev event.Event, at time.Time, run uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := SubjectOf(&ev)
	r.drop(s)
	q := &requeue{subject: s, event: ev, at: at, run: run}
	r.of[s] = q
	heap.Push(&r.due, q)
	r.signal()
}

// AwaitRoom replaces the requeue of the event's subject by one that TakeWaiting returns.
func (r *Requeues) AwaitRoom(ev event.Event, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := SubjectOf(&ev)
	r.drop(s)
	r.of[s] = &requeue{subject: s, event: ev, at: since, pos: waits}
	r.waiting++
	r.signal()
}

// TakeWaiting removes and returns the first n of the events that wait for room.
func (r *Requeues) TakeWaiting(n int) (events []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n <= 0 || r.waiting == 0 {
		return nil
	}
	all := r.allWaiting(func(Subject) bool { return true })
	for _, q := range all[:min(n, len(all))] {
		r.remove(q)
		events = append(events, q.event)
	}
	return events
}

// Waiting returns the objects of a binding whose events wait for room, the first one first.
func (r *Requeues) Waiting(h *hook.Hook, index int) (objects []event.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == 0 {
		return nil
	}
	for _, q := range r.allWaiting(func(s Subject) bool { return s.hook == h && s.index == index }) {
		objects = append(objects, q.event.Object)
	}
	return objects
}

func (r *Requeues) allWaiting(which func(Subject) bool) (all []*requeue) {
	for s, q := range r.of {
		if q.pos == waits && which(s) {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *requeue) int { return a.at.Compare(b.at) })
	return all
}

// Cancel removes the requeue of a subject, if there is one.
func (r *Requeues) Cancel(s Subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(s)
}

func (r *Requeues) drop(s Subject) {
	if q := r.of[s]; q != nil {
		r.remove(q)
	}
}

// CancelObjects removes the requeues of single objects of a binding that runs before the run-th have requested. Those of a deletion stay:
// nothing else would remove the finalizer of the object.
func (r *Requeues) CancelObjects(h *hook.Hook, index int, run uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s, q := range r.of {
		if s.hook == h && s.kind == event.Change && s.index == index && s.group == "" && q.run < run && q.event.Object.UID == "" {
			r.remove(q)
		}
	}
}

// Retain removes the requeues of all hooks for which keep returns false.
func (r *Requeues) Retain(keep func(*hook.Hook) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s, q := range r.of {
		if !keep(s.hook) {
			r.remove(q)
		}
	}
}

// dropBinding removes the requeues of a binding.
func (r *Requeues) dropBinding(h *hook.Hook, index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.of {
		if q.event.Of(h, index) {
			r.remove(q)
		}
	}
}

func (r *Requeues) remove(q *requeue) {
	if q.pos == waits {
		r.waiting--
	} else {
		heap.Remove(&r.due, q.pos)
	}
	delete(r.of, q.subject)
	r.signal()
}

func (r *Requeues) signal() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Deletions returns the objects of a binding whose Deleting is delivered again, and when, the next one first.
func (r *Requeues) Deletions(h *hook.Hook, index int) (all []Deletion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s, q := range r.of {
		if s.hook == h && s.index == index && q.event.Watch == event.Deleting && q.pos != waits {
			all = append(all, Deletion{q.event.Object, q.at})
		}
	}
	slices.SortFunc(all, func(a, b Deletion) int { return a.Due.Compare(b.Due) })
	return all
}

// Of returns when the subject of an event is delivered again: at a time, or when there is room among the parked contexts.
func (r *Requeues) Of(ev *event.Event) (at time.Time, awaitsRoom, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.of[SubjectOf(ev)]
	if q == nil {
		return time.Time{}, false, false
	}
	return q.at, q.pos == waits, true
}

// Take removes and returns the events that are due.
func (r *Requeues) Take(now time.Time) (events []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.due) > 0 && !r.due[0].at.After(now) {
		q := heap.Pop(&r.due).(*requeue)
		delete(r.of, q.subject)
		events = append(events, q.event)
	}
	return events
}

// Next returns when the next one is due; false without any. Changed has a token when that has changed.
func (r *Requeues) Next() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.due) == 0 {
		return time.Time{}, false
	}
	return r.due[0].at, true
}

// Changed has a token when Next may return something else.
func (r *Requeues) Changed() <-chan struct{} { return r.changed }

// Len is the number of requeues.
func (r *Requeues) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}

// byDue is a heap.
type byDue []*requeue

func (b byDue) Len() int           { return len(b) }
func (b byDue) Less(i, j int) bool { return b[i].at.Before(b[j].at) }

func (b byDue) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].pos, b[j].pos = i, j
}

func (b *byDue) Push(x any) {
	q := x.(*requeue)
	q.pos = len(*b)
	*b = append(*b, q)
}

func (b *byDue) Pop() any {
	last := len(*b) - 1
	q := (*b)[last]
	(*b)[last] = nil
	*b = (*b)[:last]
	return q
}
