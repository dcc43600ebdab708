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

// revival is a subject of contexts that are queued again. Superseded is the last run of a later one that has succeeded, deletion that which
// supersedes Deleting, too.
type revival struct {
	contexts             int
	superseded, deletion uint64
}

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

// context is a parked context. Its last run was the run-th of the operator.
type context struct {
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
	// Attempts and Error are from the last task that was parked, at Since.
	Attempts int
	Error    string
	Since    time.Time
	// GaveUp reports that the hook has requested no other attempt.
	GaveUp bool
	// Events are the contexts, in order; at most as many as Parked was asked for.
	Events []event.Event
	// Run is the last run of contexts that Revive has returned. It stays theirs if they are parked again.
	Run uint64
}

// Reason is why a parked context was dropped.
type Reason string

const (
	Superseded Reason = "a later run succeeded"
	BeyondMax  Reason = "there are more than --max-parked contexts"
	OnRequest  Reason = "parked drop"
	HookGone   Reason = "the hook was changed, removed or paused"
	KindGone   Reason = "the kind of the optional binding is not installed any more"
)

// Park adds the contexts of a task whose last run was the run-th. They join the contexts of the same hook and lane, under the earlier ID of
// both: what was parked before precedes what came meanwhile.
// It returns what the limit has displaced although nothing else removes a finalizer.
func (l *Ledger) Park(t ParkedTask, run uint64, events iter.Seq[event.Event]) (displaced []event.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := lane{t.Hook, t.Queue, t.Key}
	task := l.tasks[at]
	if task == nil {
		task = &parked{lane: at, contexts: list.New()}
		l.tasks[at] = task
	} else if !precedes(t.ID, task.task.ID) { // otherwise it was parked before, and is again
		t.ID = task.task.ID
	}
	task.task = t
	for ev := range events {
		s := SubjectOf(&ev)
		c := &context{event: ev, task: task, row: l.row(s), run: run}
		if c.row.parked == nil {
			c.row.parked = list.New()
		}
		c.inAll, c.inTask, c.inSubject = l.contexts.PushBack(c), task.contexts.PushBack(c), c.row.parked.PushBack(c)
		l.put(s, c.row)
		if ev.Revived == 0 {
			continue
		}
		c.event.Revived, c.run = 0, t.Run
		for later := range each(task.contexts) {
			if later.run > c.run {
				task.contexts.MoveBefore(c.inTask, later.inTask)
				break
			}
		}
	}
	for l.limit > 0 && l.contexts.Len() > l.limit {
		oldest := l.contexts.Front().Value.(*context)
		l.drop(oldest, BeyondMax)
		if oldest.event.Object.UID != "" {
			displaced = append(displaced, oldest.event)
		} else {
			l.lost[oldest.task.hook]++
		}
	}
	return displaced
}

// precedes compares the ids of tasks, which are ascending numbers.
func precedes(id, other string) bool {
	return cmp.Or(cmp.Compare(len(id), len(other)), cmp.Compare(id, other)) < 0
}

// each yields the contexts of a list, which may be removed meanwhile.
func each(l *list.List) iter.Seq[*context] {
	return func(yield func(*context) bool) {
		if l == nil {
			return
		}
		for e := l.Front(); e != nil; {
			next := e.Next()
			if !yield(e.Value.(*context)) {
				return
			}
			e = next
		}
	}
}

// supersede drops the contexts of a row whose last run began before the run-th, which has succeeded with the event: now or, if Revive has
// returned them, when they begin. A Deleting stays until its object is gone: nothing else removes the finalizer. An event that was parked
// itself is not later than others.
func (l *Ledger) supersede(r *row, ev *event.Event, run uint64) {
	if ev.Revived != 0 {
		return
	}
	for c := range each(r.parked) {
		if c.run < run && (c.event.Watch != event.Deleting || endsDeleting(ev.Watch)) {
			l.drop(c, Superseded)
		}
	}
	if r := r.revived; r != nil {
		if r.superseded = max(r.superseded, run); endsDeleting(ev.Watch) {
			r.deletion = max(r.deletion, run)
		}
	}
}

// Begin is called once for each event that Revive has returned, before its first attempt, with the run of its task. It reports whether the
// event was dropped instead, because a later one has succeeded meanwhile.
func (l *Ledger) Begin(ev *event.Event, run uint64) (superseded bool) {
	l.edit(SubjectOf(ev), func(r *row) {
		of := r.revived
		if of == nil { // its hook has been removed
			return
		}
		if of.contexts--; of.contexts == 0 {
			r.revived = nil
		}
		if superseded = run < of.superseded && (ev.Watch != event.Deleting || run < of.deletion); superseded {
			l.lose(r, ev, Superseded)
		}
	})
	return superseded
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

func (l *Ledger) drop(c *context, why Reason) {
	l.remove(c)
	l.lose(c.row, &c.event, why)
	l.put(SubjectOf(&c.event), c.row)
}

// lose is called for an event of a row that is not delivered any more.
func (l *Ledger) lose(r *row, ev *event.Event, why Reason) {
	l.leave(r, ev, why == Superseded) // then the later run has replaced it
	l.dropped(*ev, why)
}

func (l *Ledger) remove(c *context) {
	l.contexts.Remove(c.inAll)
	if c.row.parked.Remove(c.inSubject); c.row.parked.Len() == 0 {
		c.row.parked = nil
	}
	if c.task.contexts.Remove(c.inTask); c.task.contexts.Len() == 0 {
		delete(l.tasks, c.task.lane)
	}
	l.signal()
}

// Revive removes a parked task and returns it with all its events, to be queued again.
func (l *Ledger) Revive(id string) (ParkedTask, bool) {
	var last uint64
	t, ok := l.removeTask(id, -1, func(c *context) {
		if c.row.revived == nil {
			c.row.revived = &revival{}
		}
		c.row.revived.contexts++
		last = max(last, c.run)
		l.remove(c)
	})
	t.Run = last
	for i := range t.Events {
		t.Events[i].Revived = event.Queued
	}
	return t, ok
}

// Drop drops a parked task, and returns it as Parked does.
func (l *Ledger) Drop(id string, events int) (ParkedTask, bool) {
	return l.removeTask(id, events, func(c *context) { l.drop(c, OnRequest) })
}

func (l *Ledger) removeTask(id string, events int, do func(*context)) (ParkedTask, bool) {
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
