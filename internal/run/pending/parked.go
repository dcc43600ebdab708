package pending

import (
	"cmp"
	"container/list"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// lane identifies a parked task.
type lane struct {
	hook       *hook.Hook
	queue, key string
}

// parked is a task with its contexts, in order.
type parked struct {
	lane
	task     ParkedTask
	contexts *list.List
}

// parkedContext is a parked context. Its last run was the run-th of the operator.
type parkedContext struct {
	event event.Event
	task  *parked
	row   *row
	run   uint64
	// inAll, inTask and inSubject are its elements in the three lists.
	inAll, inTask, inSubject *list.Element
}

// ParkedTask describes the parked contexts of a hook in one lane.
type ParkedTask struct {
	ID         string
	Hook       *hook.Hook
	Queue, Key string
	// KeyValue is the value of which Key is a hash; empty if it is none.
	KeyValue string
	Contexts int
	// Attempts and Error, the cause of the failure, are from the last task that was parked, at Since.
	Attempts int
	Error    string
	Since    time.Time
	// GaveUp reports that the hook has requested no other attempt.
	GaveUp bool
	// Events are the contexts, in order; at most as many as Parked was asked for.
	Events []event.Event
}

// Reason is why a parked context was dropped.
type Reason string

const (
	Superseded Reason = "a later run succeeded"
	BeyondMax  Reason = "there are more than --max-parked contexts"
	OnRequest  Reason = "parked drop"
	HookGone   Reason = "the hook was changed, removed or paused"
)

// park adds the contexts of a task whose last run was the run-th. They join the contexts of the same hook and lane, under the ID of those.
// It returns what the limit has displaced although nothing else removes a finalizer.
func (l *Ledger) park(t ParkedTask, run uint64, events iter.Seq[event.Event]) (displaced []event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := lane{t.Hook, t.Queue, t.Key}
	task := l.tasks[at]
	if task == nil {
		task = &parked{lane: at, contexts: list.New()}
		l.tasks[at] = task
	} else {
		t.ID = task.task.ID
	}
	task.task = t
	for ev := range events {
		s := SubjectOf(&ev)
		c := &parkedContext{event: ev, task: task, row: l.row(s), run: run}
		if c.row.parked == nil {
			c.row.parked = list.New()
		}
		c.inAll, c.inTask, c.inSubject = l.contexts.PushBack(c), task.contexts.PushBack(c), c.row.parked.PushBack(c)
		l.put(s, c.row)
	}
	for l.o.Limit > 0 && l.contexts.Len() > l.o.Limit {
		oldest := l.contexts.Front().Value.(*parkedContext)
		l.drop(oldest, BeyondMax)
		if oldest.event.Object.UID != "" {
			displaced = append(displaced, oldest.event)
		} else {
			l.lost[oldest.task.hook]++
		}
	}
	return displaced
}

// each yields the contexts of a list, which may be removed meanwhile.
func each(l *list.List) iter.Seq[*parkedContext] {
	return func(yield func(*parkedContext) bool) {
		if l == nil {
			return
		}
		for e := l.Front(); e != nil; {
			next := e.Next()
			if !yield(e.Value.(*parkedContext)) {
				return
			}
			e = next
		}
	}
}

// supersede drops the contexts of a row whose last run began before the run-th, which has succeeded with the event. A Deleting stays until
// its object is gone: nothing else removes the finalizer.
func (l *Ledger) supersede(r *row, ev *event.Event, run uint64) {
	for c := range each(r.parked) {
		if c.run < run && (c.event.Watch != event.Deleting || endsDeleting(ev.Watch)) {
			l.drop(c, Superseded)
		}
	}
}

// Lost counts the contexts of each hook that the limit has dropped since its last success.
func (l *Ledger) Lost() map[*hook.Hook]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.lost)
}

// endsDeleting reports whether an event can follow Deleting only when that has succeeded, or its object is gone.
func endsDeleting(w event.Watch) bool {
	return w == event.Deleting || w == event.Deleted || w == event.Added
}

func (l *Ledger) drop(c *parkedContext, why Reason) {
	l.remove(c, why == Superseded) // then the later run has replaced it
	l.o.Dropped(c.event, why)
}

func (l *Ledger) remove(c *parkedContext, replaced bool) {
	l.contexts.Remove(c.inAll)
	if c.row.parked.Remove(c.inSubject); c.row.parked.Len() == 0 {
		c.row.parked = nil
	}
	if c.task.contexts.Remove(c.inTask); c.task.contexts.Len() == 0 {
		delete(l.tasks, c.task.lane)
	}
	l.leave(c.row, &c.event, replaced)
	l.put(SubjectOf(&c.event), c.row)
	l.signal()
}

// Retry removes a parked task and returns it, with all its contexts in Contexts, and in Events one for each subject, to be queued again, in
// the order of their first contexts.
func (l *Ledger) Retry(id string) (ParkedTask, bool) {
	t, ok := l.removeTask(id, -1, func(c *parkedContext) { l.remove(c, true) })
	at := map[Subject]int{}
	var events []event.Event
	for _, ev := range t.Events {
		s := SubjectOf(&ev)
		if i, known := at[s]; known {
			events[i] = later(events[i], ev)
		} else {
			at[s] = len(events)
			events = append(events, ev)
		}
	}
	t.Events = nil
	for _, ev := range events {
		t.Events = append(t.Events, t.again(ev))
	}
	return t, ok
}

// later returns the event that replaces two of a subject, of which next is the later one: Added precedes Modified, and only Deleted, or the
// Added of an object that was created again, follows Deleting.
func later(ev, next event.Event) event.Event {
	stays := next.Watch == event.Requeued || next.Watch == event.Modified && (ev.Watch == event.Added || ev.Watch == event.Deleting)
	if stays && ev.Binding().Group == "" {
		return ev
	}
	return next
}

// again is an event of the task as it is delivered again. The object is read then, but for Deleted.
func (t *ParkedTask) again(ev event.Event) event.Event {
	o := ev.Object
	ev.Retried, ev.Initial = true, false
	switch {
	case ev.Type == event.Synchronization: // its bindings were unlocked when it was parked
		ev.Watch = event.Requeued
	case ev.Watch == event.Deleted:
		ev.Key = cmp.Or(t.KeyValue, t.Key)
	default:
		ev.Object = event.Object{Namespace: o.Namespace, Name: o.Name, Kind: o.Kind, UID: o.UID}
	}
	return ev
}

// Drop drops a parked task, and returns it as Parked does.
func (l *Ledger) Drop(id string, events int) (ParkedTask, bool) {
	return l.removeTask(id, events, func(c *parkedContext) { l.drop(c, OnRequest) })
}

func (l *Ledger) removeTask(id string, events int, do func(*parkedContext)) (ParkedTask, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for first := range each(l.contexts) { // in the order of Parked
		if first.task.task.ID != id {
			continue
		}
		t := first.task.describe(events)
		for c := range each(first.task.contexts) {
			do(c)
		}
		return t, true
	}
	return ParkedTask{}, false
}

// Parked returns the parked tasks, the oldest first, with at most so many of their events.
func (l *Ledger) Parked(events int) (all []ParkedTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range each(l.contexts) {
		if c.task.contexts.Front() == c.inTask {
			all = append(all, c.task.describe(events))
		}
	}
	return all
}

// ParkedOf returns the parked tasks that have contexts with the subject of an event, without their events; Contexts are only these.
func (l *Ledger) ParkedOf(ev *event.Event) (all []ParkedTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := map[*parked]int{}
	for c := range each(l.row(SubjectOf(ev)).parked) {
		n, known := at[c.task]
		if !known {
			n, at[c.task] = len(all), len(all)
			all = append(all, c.task.describe(0))
			all[n].Contexts = 0
		}
		all[n].Contexts++
	}
	return all
}

// describe returns a task with at most so many of its events; -1 means all.
func (task *parked) describe(events int) ParkedTask {
	t := task.task
	t.Contexts = task.contexts.Len()
	if events < 0 || events > t.Contexts {
		events = t.Contexts
	}
	t.Events = slices.Grow(t.Events, events)
	for c := range each(task.contexts) {
		if len(t.Events) == events {
			break
		}
		t.Events = append(t.Events, c.event)
	}
	return t
}
