package pending

import (
	"cmp"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Requeues are the events that hooks get again later. It is safe for concurrent use.
type Requeues struct {
	mu sync.Mutex
	of map[Subject]*requeue
	// due are those with a time, waiting those that wait, since a time, for room among the parked contexts. The first one comes first.
	due, waiting *btree.BTreeG[*requeue]
	// number counts the requeues.
	number uint64
	// changed has a token when the first one has changed.
	changed chan struct{}
}

// requeue is an event that is due at a time. The run-th run of the operator has requested it.
type requeue struct {
	subject Subject
	event   event.Event
	at      time.Time
	run     uint64
	number  uint64
	in      *btree.BTreeG[*requeue]
}

func (q *requeue) before(other *requeue) bool {
	return cmp.Or(q.at.Compare(other.at), cmp.Compare(q.number, other.number)) < 0
}

// Deletion is an object whose clean-up has another step, which is due at a time.
type Deletion struct {
	Object event.Object
	Due    time.Time
}

// Due is what a hook gets again in a queue: so many events, Objects of them about one object each, the first one at Next.
type Due struct {
	Hook            *hook.Hook
	Queue           string
	Events, Objects int
	Next            time.Time
}

// NewRequeues returns Requeues without any.
func NewRequeues() *Requeues {
	ordered := func() *btree.BTreeG[*requeue] {
		return btree.NewBTreeGOptions((*requeue).before, btree.Options{NoLocks: true})
	}
	return &Requeues{of: map[Subject]*requeue{}, due: ordered(), waiting: ordered(), changed: make(chan struct{}, 1)}
}

// Set replaces the requeue of the event's subject, as the run-th run has requested.
func (r *Requeues) Set(ev event.Event, at time.Time, run uint64) { r.put(r.due, ev, at, run) }

// AwaitRoom replaces the requeue of the event's subject by one that TakeWaiting returns.
func (r *Requeues) AwaitRoom(ev event.Event, since time.Time) { r.put(r.waiting, ev, since, 0) }

func (r *Requeues) put(in *btree.BTreeG[*requeue], ev event.Event, at time.Time, run uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := SubjectOf(&ev)
	r.drop(s)
	r.number++
	q := &requeue{s, ev, at, run, r.number, in}
	r.of[s] = q
	in.Set(q)
	r.signal()
}

// TakeWaiting removes and returns the first n of the events that wait for room.
func (r *Requeues) TakeWaiting(n int) (events []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; n > 0 && r.waiting.Len() > 0; n-- {
		q, _ := r.waiting.Min()
		r.remove(q)
		events = append(events, q.event)
	}
	return events
}

// Waiting returns the objects of a binding whose events wait for room, the first one first.
func (r *Requeues) Waiting(h *hook.Hook, index int) (objects []event.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting.Scan(func(q *requeue) bool {
		if q.subject.hook == h && q.subject.index == index {
			objects = append(objects, q.event.Object)
		}
		return true
	})
	return objects
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
	r.removeAll(func(q *requeue) bool {
		s := q.subject
		return s.hook == h && s.kind == event.Change && s.index == index && s.group == "" && q.run < run && q.event.Object.UID == ""
	})
}

// Retain removes the requeues of all hooks for which keep returns false.
func (r *Requeues) Retain(keep func(*hook.Hook) bool) {
	r.removeAll(func(q *requeue) bool { return !keep(q.subject.hook) })
}

func (r *Requeues) removeAll(which func(*requeue) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.of {
		if which(q) {
			r.remove(q)
		}
	}
}

// remove requires mu.
func (r *Requeues) remove(q *requeue) {
	q.in.Delete(q)
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
	r.due.Scan(func(q *requeue) bool {
		if q.subject.hook == h && q.subject.index == index && q.event.Watch == event.Deleting {
			all = append(all, Deletion{q.event.Object, q.at})
		}
		return true
	})
	return all
}

// Due is what has a time, by hook and queue, the first one first.
func (r *Requeues) Due() (all []Due) {
	type place struct {
		hook  *hook.Hook
		queue string
	}
	at := map[place]int{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due.Scan(func(q *requeue) bool {
		p := place{q.subject.hook, q.event.Queue()}
		i, known := at[p]
		if !known {
			i, at[p] = len(all), len(all)
			all = append(all, Due{Hook: p.hook, Queue: p.queue, Next: q.at})
		}
		all[i].Events++
		if q.subject.name != "" {
			all[i].Objects++
		}
		return true
	})
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
	return q.at, q.in == r.waiting, true
}

// Take removes and returns the events that are due.
func (r *Requeues) Take(now time.Time) (events []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		q, ok := r.due.Min()
		if !ok || q.at.After(now) {
			return events
		}
		r.remove(q)
		events = append(events, q.event)
	}
}

// Next returns when the next one is due; false without any. Changed has a token when that has changed.
func (r *Requeues) Next() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, ok := r.due.Min()
	if !ok {
		return time.Time{}, false
	}
	return first.at, true
}

// Changed has a token when Next may return something else.
func (r *Requeues) Changed() <-chan struct{} { return r.changed }

// Len is the number of requeues.
func (r *Requeues) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of)
}
