package pending

import (
	"cmp"
	"container/list"
	"iter"
	"maps"
	"math"
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
	// freed has a token when there may be room below the limit. Its capacity is 1.
	freed chan struct{}

	mu sync.Mutex
	// contexts are all of them, about those of a subject; the oldest come first.
	contexts *list.List
	about    map[Subject]*list.List
	// tasks and ids have the same tasks.
	tasks map[lane]*parked
	ids   map[string]*parked
	// revived are the subjects of contexts that Take has returned and Begin has not got.
	revived map[Subject]*revival
	// lost counts the contexts of a hook that the limit has dropped since its last success.
	lost map[*hook.Hook]int
}

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
	// Attempts and Error are those of the last task that was parked, at Since.
	Attempts int
	Error    string
	Since    time.Time
	// GaveUp reports that the hook has requested no other attempt.
	GaveUp bool
	// Events are the contexts, in order; at most as many as List was asked for.
	Events []event.Event
	// Run is the last run of contexts that Take has returned. It stays theirs if they are parked again.
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

// NewParked returns Parked for at most limit contexts; 0 means no limit. Dropped is called, with a lock held, for each context
// that is dropped.
func NewParked(limit int, dropped func(ev event.Event, why Reason)) *Parked {
	return &Parked{
		limit: limit, dropped: dropped, freed: make(chan struct{}, 1), contexts: list.New(), about: map[Subject]*list.List{},
		tasks: map[lane]*parked{}, ids: map[string]*parked{}, revived: map[Subject]*revival{}, lost: map[*hook.Hook]int{},
	}
}

// Park adds the contexts of a task whose last run was the run-th. They join those of the same hook and lane, under the earlier ID of both:
// those that were parked before precede those that came meanwhile.
// It returns what the limit has displaced although nothing else removes a finalizer.
func (p *Parked) Park(t ParkedTask, run uint64, events iter.Seq[event.Event]) (displaced []event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := lane{t.Hook, t.Queue, t.Key}
	task := p.tasks[at]
	if task == nil {
		task = &parked{lane: at, contexts: list.New()}
		p.tasks[at], p.ids[t.ID] = task, task
	} else if at := task.task.ID; precedes(t.ID, at) { // it was parked before, and is again
		delete(p.ids, at)
		p.ids[t.ID] = task
	} else {
		t.ID = at
	}
	task.task = t
	for ev := range events {
		s := SubjectOf(&ev)
		if p.about[s] == nil {
			p.about[s] = list.New()
		}
		c := &context{event: ev, task: task, run: run}
		c.inAll, c.inTask, c.inSubject = p.contexts.PushBack(c), task.contexts.PushBack(c), p.about[s].PushBack(c)
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
	for p.limit > 0 && p.contexts.Len() > p.limit {
		oldest := p.contexts.Front().Value.(*context)
		p.drop(oldest, BeyondMax)
		if oldest.event.Object.UID != "" {
			displaced = append(displaced, oldest.event)
		} else {
			p.lost[oldest.task.hook]++
		}
	}
	return displaced
}

// precedes compares ids: those of tasks are ascending numbers.
func precedes(id, other string) bool {
	return cmp.Or(cmp.Compare(len(id), len(other)), cmp.Compare(id, other)) < 0
}

// Room is how many contexts more can be parked before one is dropped.
func (p *Parked) Room() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limit == 0 {
		return math.MaxInt
	}
	return p.limit - p.contexts.Len()
}

// Freed has a token when Room may have become positive.
func (p *Parked) Freed() <-chan struct{} { return p.freed }

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

// Supersede drops the contexts with the subject of an event whose last run began before the run-th, which has succeeded with the event:
// now or, if Take has returned them, when they begin. A Deleting stays until its object is gone: nothing else removes the finalizer. An
// event that was parked itself is not later than others.
func (p *Parked) Supersede(ev *event.Event, run uint64) {
	if ev.Revived != 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := SubjectOf(ev)
	for c := range each(p.about[s]) {
		if c.run < run && (c.event.Watch != event.Deleting || endsDeleting(ev.Watch)) {
			p.drop(c, Superseded)
		}
	}
	if r := p.revived[s]; r != nil {
		if r.superseded = max(r.superseded, run); endsDeleting(ev.Watch) {
			r.deletion = max(r.deletion, run)
		}
	}
}

// Begin is called once for each event that Take has returned, before its first attempt, with the run of its task. It reports whether the
// event was dropped instead, because a later one has succeeded meanwhile.
func (p *Parked) Begin(ev *event.Event, run uint64) (superseded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := SubjectOf(ev)
	r := p.revived[s]
	if r == nil { // its hook has been removed
		return false
	}
	if r.contexts--; r.contexts == 0 {
		delete(p.revived, s)
	}
	if run >= r.superseded || ev.Watch == event.Deleting && run >= r.deletion {
		return false
	}
	p.dropped(*ev, Superseded)
	return true
}

// Idle reports that no context is parked or queued again: Supersede has nothing to do.
func (p *Parked) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contexts.Len()+len(p.revived) == 0
}

// Succeeded ends the count of Lost for a hook.
func (p *Parked) Succeeded(h *hook.Hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.lost, h)
}

// Lost counts the contexts of each hook that the limit has dropped since its last success.
func (p *Parked) Lost() map[*hook.Hook]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.lost)
}

// endsDeleting reports whether an event can follow Deleting only when that has succeeded, or its object is gone.
func endsDeleting(w event.Watch) bool {
	return w == event.Deleting || w == event.Deleted || w == event.Added
}

func (p *Parked) drop(c *context, why Reason) {
	p.remove(c)
	p.dropped(c.event, why)
}

func (p *Parked) remove(c *context) {
	p.contexts.Remove(c.inAll)
	s := SubjectOf(&c.event)
	if p.about[s].Remove(c.inSubject); p.about[s].Len() == 0 {
		delete(p.about, s)
	}
	if c.task.contexts.Remove(c.inTask); c.task.contexts.Len() == 0 {
		delete(p.tasks, c.task.lane)
		delete(p.ids, c.task.task.ID)
	}
	if p.contexts.Len() < p.limit {
		select {
		case p.freed <- struct{}{}:
		default:
		}
	}
}

// Take removes a parked task and returns it with all its events, to be queued again.
func (p *Parked) Take(id string) (ParkedTask, bool) {
	var last uint64
	t, ok := p.end(id, -1, func(c *context) {
		s := SubjectOf(&c.event)
		if p.revived[s] == nil {
			p.revived[s] = &revival{}
		}
		p.revived[s].contexts++
		last = max(last, c.run)
		p.remove(c)
	})
	t.Run = last
	for i := range t.Events {
		t.Events[i].Revived = event.Queued
	}
	return t, ok
}

// Drop drops a parked task, and returns it as List does.
func (p *Parked) Drop(id string, events int) (ParkedTask, bool) {
	return p.end(id, events, func(c *context) { p.drop(c, OnRequest) })
}

func (p *Parked) end(id string, events int, do func(*context)) (ParkedTask, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	task := p.ids[id]
	if task == nil {
		return ParkedTask{}, false
	}
	t := task.describe(events)
	for c := range each(task.contexts) {
		do(c)
	}
	return t, true
}

// Retain drops the contexts of all hooks for which keep returns false.
func (p *Parked) Retain(keep func(*hook.Hook) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range each(p.contexts) {
		if !keep(c.task.hook) {
			p.drop(c, HookGone)
		}
	}
	maps.DeleteFunc(p.revived, func(of Subject, _ *revival) bool { return !keep(of.hook) })
	maps.DeleteFunc(p.lost, func(h *hook.Hook, _ int) bool { return !keep(h) })
}

// End drops the contexts of a binding whose kind is gone, except those with the Deleted of an object.
func (p *Parked) End(h *hook.Hook, index int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range each(p.contexts) {
		if c.event.Of(h, index) && c.event.Watch != event.Deleted {
			p.drop(c, KindGone)
		}
	}
}

// List returns the parked tasks, the oldest first, with at most so many of their events.
func (p *Parked) List(events int) (all []ParkedTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range each(p.contexts) {
		if c.task.contexts.Front() == c.inTask {
			all = append(all, c.task.describe(events))
		}
	}
	return all
}

// Of returns the parked tasks that have contexts with the subject of an event, without their events; Contexts are only these.
func (p *Parked) Of(ev *event.Event) (all []ParkedTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := map[*parked]int{}
	for c := range each(p.about[SubjectOf(ev)]) {
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

// Len is the number of contexts.
func (p *Parked) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.contexts.Len()
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
