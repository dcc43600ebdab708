package pending

import (
	"container/list"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Parked are the contexts of exhausted tasks, by hook and lane. It is safe for concurrent use.
type Parked struct {
	limit   int
	dropped func(ev event.Event, why Reason)

	mu sync.Mutex
	// contexts are all of them, the oldest first; about finds those of a subject.
	contexts *list.List
	about    map[Subject][]*list.Element
	tasks    map[lane]*parked
}

// lane identifies a parked task.
type lane struct {
	hook       *hook.Hook
	queue, key string
}

type parked struct {
	lane
	task     ParkedTask
	contexts int
}

// context is a parked context. Its last run was the run-th of the operator.
type context struct {
	event event.Event
	task  *parked
	run   uint64
}

// ParkedTask describes the parked contexts of a hook in one lane.
type ParkedTask struct {
	ID         string
	Hook       *hook.Hook
	Queue, Key string
	Contexts   int
	// Attempts and Error are those of the last task that was parked, at Since.
	Attempts int
	Error    string
	Since    time.Time
	// Events are the contexts, in order; at most as many as List was asked for.
	Events []event.Event
}

// Reason is why a parked context was dropped.
type Reason string

const (
	Superseded Reason = "a later run succeeded"
	BeyondMax  Reason = "there are more than --max-parked contexts"
	OnRequest  Reason = "parked drop"
	HookGone   Reason = "the hook was changed or removed"
)

// NewParked returns Parked for at most limit contexts; 0 means no limit. Dropped is called, with a lock held, for each context
// that is dropped.
func NewParked(limit int, dropped func(ev event.Event, why Reason)) *Parked {
	return &Parked{limit: limit, dropped: dropped, contexts: list.New(), about: map[Subject][]*list.Element{}, tasks: map[lane]*parked{}}
}

// Park adds the contexts of a task whose last run was the run-th. They join those of the same hook and lane, which keep their ID.
func (p *Parked) Park(t ParkedTask, run uint64, events iter.Seq[event.Event]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := lane{t.Hook, t.Queue, t.Key}
	task := p.tasks[at]
	if task == nil {
		task = &parked{lane: at}
		p.tasks[at] = task
	} else {
		t.ID = task.task.ID
	}
	task.task = t
	for ev := range events {
		e := p.contexts.PushBack(&context{ev, task, run})
		s := SubjectOf(&ev)
		p.about[s] = append(p.about[s], e)
		task.contexts++
	}
	for p.limit > 0 && p.contexts.Len() > p.limit {
		p.drop(p.contexts.Front(), BeyondMax)
	}
}

// Supersede drops the contexts with the subject of an event whose last run began before the run-th, which has succeeded with the event. A Deleting
// stays until its object is gone: nothing else removes the finalizer.
func (p *Parked) Supersede(ev *event.Event, run uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Clone(p.about[SubjectOf(ev)]) {
		c := e.Value.(*context)
		if c.run < run && (c.event.Watch != event.Deleting || endsDeleting(ev.Watch)) {
			p.drop(e, Superseded)
		}
	}
}

// endsDeleting reports whether an event can follow Deleting only when that has succeeded, or its object is gone.
func endsDeleting(w event.Watch) bool {
	return w == event.Deleting || w == event.Deleted || w == event.Added
}

func (p *Parked) drop(e *list.Element, why Reason) {
	p.remove(e)
	p.dropped(e.Value.(*context).event, why)
}

func (p *Parked) remove(e *list.Element) {
	c := e.Value.(*context)
	p.contexts.Remove(e)
	s := SubjectOf(&c.event)
	p.about[s] = slices.DeleteFunc(p.about[s], func(other *list.Element) bool { return other == e })
	if len(p.about[s]) == 0 {
		delete(p.about, s)
	}
	if c.task.contexts--; c.task.contexts == 0 {
		delete(p.tasks, c.task.lane)
	}
}

// Take removes a parked task and returns it with all its events.
func (p *Parked) Take(id string) (ParkedTask, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	task := p.find(id)
	if task == nil {
		return ParkedTask{}, false
	}
	t := p.describe(task, -1)
	for _, e := range p.of(task) {
		p.remove(e)
	}
	return t, true
}

// Drop drops a parked task, and returns it as List does.
func (p *Parked) Drop(id string, events int) (ParkedTask, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	task := p.find(id)
	if task == nil {
		return ParkedTask{}, false
	}
	t := p.describe(task, events)
	for _, e := range p.of(task) {
		p.drop(e, OnRequest)
	}
	return t, true
}

// Retain drops the contexts of all hooks for which keep returns false.
func (p *Parked) Retain(keep func(*hook.Hook) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.contexts.Front(); e != nil; {
		next := e.Next()
		if !keep(e.Value.(*context).task.hook) {
			p.drop(e, HookGone)
		}
		e = next
	}
}

// List returns the parked tasks, the oldest first, with at most so many of their events.
func (p *Parked) List(events int) (all []ParkedTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	index := map[*parked]int{}
	for e := p.contexts.Front(); e != nil; e = e.Next() {
		c := e.Value.(*context)
		i, ok := index[c.task]
		if !ok {
			i = len(all)
			index[c.task] = i
			all = append(all, p.describe(c.task, 0))
		}
		if len(all[i].Events) < events {
			all[i].Events = append(all[i].Events, c.event)
		}
	}
	return all
}

// Len is the number of contexts.
func (p *Parked) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contexts.Len()
}

// describe returns a task with at most so many of its events; -1 means all.
func (p *Parked) describe(task *parked, events int) ParkedTask {
	t := task.task
	t.Contexts = task.contexts
	if events == 0 {
		return t
	}
	for _, e := range p.of(task) {
		if events >= 0 && len(t.Events) == events {
			break
		}
		t.Events = append(t.Events, e.Value.(*context).event)
	}
	return t
}

func (p *Parked) find(id string) *parked {
	for _, task := range p.tasks {
		if task.task.ID == id {
			return task
		}
	}
	return nil
}

// of returns the contexts of a task, in order.
func (p *Parked) of(task *parked) (all []*list.Element) {
	for e := p.contexts.Front(); e != nil; e = e.Next() {
		if e.Value.(*context).task == task {
			all = append(all, e)
		}
	}
	return all
}
