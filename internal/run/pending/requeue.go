package pending

import (
	"cmp"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// requeue is an event that is due at a time, or as soon as there is room among the parked contexts. The run-th run of the operator has
// requested it.
type requeue struct {
	subject Subject
	event   event.Event
	// at is when it is due; for one that awaits room, since when.
	at         time.Time
	awaitsRoom bool
	run        uint64
	number     uint64
}

func (q *requeue) before(other *requeue) bool {
	if q.awaitsRoom != other.awaitsRoom {
		return other.awaitsRoom
	}
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

// Requeue replaces the requeue of the event's subject, as the run-th run has requested.
func (l *Ledger) Requeue(ev event.Event, at time.Time, run uint64) {
	q := &requeue{subject: SubjectOf(&ev), event: ev, at: at, run: run}
	l.edit(q.subject, func(r *row) { l.enqueue(r, q) })
}

// AwaitRoom replaces the requeue of the event's subject by one that is due when there is room among the parked contexts.
func (l *Ledger) AwaitRoom(ev event.Event, since time.Time) {
	q := &requeue{subject: SubjectOf(&ev), event: ev, at: since, awaitsRoom: true}
	l.edit(q.subject, func(r *row) { l.enqueue(r, q) })
}

func (l *Ledger) enqueue(r *row, q *requeue) {
	l.unqueue(r)
	l.number++
	q.number = l.number
	r.requeue = q
	l.requeues.Set(q)
	l.signal()
}

// unqueue removes the requeue of a row, if there is one.
func (l *Ledger) unqueue(r *row) {
	if r.requeue != nil {
		l.requeues.Delete(r.requeue)
		r.requeue = nil
		l.signal()
	}
}

// cancel removes requeues.
func (l *Ledger) cancel(which func(*requeue) bool) {
	var all []*requeue
	l.requeues.Scan(func(q *requeue) bool {
		if which(q) {
			all = append(all, q)
		}
		return true
	})
	for _, q := range all {
		r := l.row(q.subject)
		l.unqueue(r)
		l.put(q.subject, r)
	}
}

// Cancel removes the requeue of an event's subject, if there is one.
func (l *Ledger) Cancel(ev *event.Event) { l.edit(SubjectOf(ev), l.unqueue) }

// Take removes and returns the events that are due, and those for which there is room.
func (l *Ledger) Take(now time.Time) (events []event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var subjects []Subject
	take := func(q *requeue) {
		events, subjects = append(events, q.event), append(subjects, q.subject)
	}
	l.requeues.Scan(func(q *requeue) bool {
		due := !q.awaitsRoom && !q.at.After(now)
		if due {
			take(q)
		}
		return due
	})
	room := l.o.Limit - l.contexts.Len()
	l.requeues.Ascend(&requeue{awaitsRoom: true}, func(q *requeue) bool {
		if room--; l.o.Limit > 0 && room < 0 {
			return false
		}
		take(q)
		return true
	})
	for _, s := range subjects {
		r := l.row(s)
		l.unqueue(r)
		l.put(s, r)
	}
	return events
}

// Next returns when the next event is due; false without any.
func (l *Ledger) Next() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first, ok := l.requeues.Min(); ok && !first.awaitsRoom {
		return first.at, true
	}
	return time.Time{}, false
}

// Waiting returns the objects of a binding whose events wait for room, the first one first.
func (l *Ledger) Waiting(h *hook.Hook, index int) (objects []event.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requeues.Ascend(&requeue{awaitsRoom: true}, func(q *requeue) bool {
		if q.subject.hook == h && q.subject.index == index {
			objects = append(objects, q.event.Object)
		}
		return true
	})
	return objects
}

// Deletions returns the objects of a binding whose Deleting is delivered again, and when, the next one first.
func (l *Ledger) Deletions(h *hook.Hook, index int) (all []Deletion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requeues.Scan(func(q *requeue) bool {
		if !q.awaitsRoom && q.subject.hook == h && q.subject.index == index && q.event.Watch == event.Deleting {
			all = append(all, Deletion{q.event.Object, q.at})
		}
		return !q.awaitsRoom
	})
	return all
}

// Due is what has a time, by hook and queue, the first one first.
func (l *Ledger) Due() (all []Due) {
	type place struct {
		hook  *hook.Hook
		queue string
	}
	at := map[place]int{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requeues.Scan(func(q *requeue) bool {
		if q.awaitsRoom {
			return false
		}
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

// Requeued returns when the subject of an event is delivered again: at a time, or when there is room among the parked contexts.
func (l *Ledger) Requeued(ev *event.Event) (at time.Time, awaitsRoom, ok bool) {
	q := l.read(ev).requeue
	if q == nil {
		return time.Time{}, false, false
	}
	return q.at, q.awaitsRoom, true
}
