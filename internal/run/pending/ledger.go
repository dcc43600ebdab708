// Package pending keeps deferred work in a ledger: parked contexts, requeues, the last version of objects that a hook has processed, and
// the lanes of objects that have waiting events.
//
// Callers may rely on this:
//   - There is at most one requeue of a subject.
//   - Parked contexts keep their order. Beyond the bound the oldest one is dropped. One whose success removes a finalizer is delivered
//     again when there is room.
//   - An object stays in its lane as long as it has events there, even if its key changes.
//   - A successful run drops older parked contexts of what it contained, and sets or cancels its requeues.
//   - Only a successful run, or one that is allowed to fail, with the Deleting of an object removes its finalizer.
//   - The runs of a hook of which nothing is kept walk no events.
//
// It starts nothing: callers deliver what is due.
package pending

import (
	"container/list"
	"iter"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Ledger has the deferred work of all hooks: a row for each subject that has some. It is safe for concurrent use.
type Ledger struct {
	o Options
	// changed has a token when Next or room may have changed. Its capacity is 1.
	changed chan struct{}

	mu   sync.Mutex
	rows map[*hook.Hook]map[Subject]*row
	// contexts are all parked ones; the oldest come first.
	contexts *list.List
	tasks    map[lane]*parked
	// lost counts the contexts of a hook that the limit has dropped since its last success.
	lost map[*hook.Hook]int
	// requeues come in the order of their times, and after them those that wait for room. number counts the requeues.
	requeues *btree.BTreeG[*requeue]
	number   uint64
	// lists counts the runs in flight with an initial list that becomes previous versions; listed is the last of these runs.
	lists  int
	listed uint64
}

// Subject is what a context is about: an object of a binding, a Synchronization, a schedule, or a group of a hook.
type Subject struct {
	hook            *hook.Hook
	kind            event.Type
	index           int
	group           string
	namespace, name string
}

// SubjectOf returns the subject of an event.
func SubjectOf(ev *event.Event) Subject {
	if group := ev.Binding().Group; group != "" {
		return Subject{hook: ev.Hook, group: group}
	}
	return Subject{hook: ev.Hook, kind: ev.Type, index: ev.Index, namespace: ev.Object.Namespace, name: ev.Object.Name}
}

// row is the deferred work of a subject. An empty one is removed.
type row struct {
	// parked are the contexts; nil if there are none.
	parked   *list.List
	requeue  *requeue
	previous *version
	// events is how many wait in the lane of the key.
	events        int
	key, keyValue string
}

// Options of a Ledger. Objects are required for runs, the others are optional.
type Options struct {
	// Limit is the largest number of parked contexts; 0 means no limit. Dropped is called, with a lock held, for each context that is dropped.
	Limit   int
	Dropped func(ev event.Event, why Reason)
	// Full reports that too much waits: a Modified event then takes the place of one of its object. It must be quick.
	Full func() bool
	// Replaced receives each waiting event of which a later one takes the place. It must be quick.
	Replaced   func(ev *event.Event)
	Objects    Objects
	Finalizers Finalizers
	// Random returns a number in [0, 1) for the jitter of requeues.
	Random func() float64
}

// New returns an empty Ledger.
func New(o Options) *Ledger {
	if o.Dropped == nil {
		o.Dropped = func(event.Event, Reason) {}
	}
	if o.Full == nil {
		o.Full = func() bool { return false }
	}
	if o.Replaced == nil {
		o.Replaced = func(*event.Event) {}
	}
	if o.Finalizers == nil {
		o.Finalizers = noFinalizers{}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Ledger{
		o: o, changed: make(chan struct{}, 1), rows: map[*hook.Hook]map[Subject]*row{}, contexts: list.New(),
		tasks: map[lane]*parked{}, lost: map[*hook.Hook]int{},
		requeues: btree.NewBTreeGOptions((*requeue).before, btree.Options{NoLocks: true}),
	}
}

// row returns the row of a subject, perhaps a new one that put has not got.
func (l *Ledger) row(s Subject) *row {
	if r := l.rows[s.hook][s]; r != nil {
		return r
	}
	return &row{}
}

// put keeps a row that has changed.
func (l *Ledger) put(s Subject, r *row) {
	of := l.rows[s.hook]
	switch empty := r.parked == nil && r.requeue == nil && r.previous == nil && r.events == 0; {
	case !empty && of == nil:
		l.rows[s.hook] = map[Subject]*row{s: r}
	case !empty:
		of[s] = r
	case len(of) > 1:
		delete(of, s)
	case of[s] != nil:
		delete(l.rows, s.hook)
	}
}

// all yields the rows, which may be removed meanwhile.
func (l *Ledger) all() iter.Seq2[Subject, *row] {
	return func(yield func(Subject, *row) bool) {
		for _, of := range l.rows {
			for s, r := range of {
				if !yield(s, r) {
					return
				}
			}
		}
	}
}

// edit changes the row of a subject.
func (l *Ledger) edit(s Subject, do func(r *row)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.row(s)
	do(r)
	l.put(s, r)
}

// read returns a copy of the row of an event's subject.
func (l *Ledger) read(ev *event.Event) row {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.row(SubjectOf(ev))
}

func (l *Ledger) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Changed has a token when Next, or the room for parked contexts, may have changed.
func (l *Ledger) Changed() <-chan struct{} { return l.changed }

// success is the meaning of a successful run for one of its events.
type success struct {
	run uint64
	// again is delivered at the time at; zero means never.
	again event.Event
	at    time.Time
}

// processed is called for each event of a successful run: it sets or cancels the requeue of its subject, and drops older parked contexts of
// the subject. Of a Synchronization it cancels the requeues of single objects that earlier runs have requested; a requeued deletion stays,
// because nothing else would remove the finalizer of the object.
func (l *Ledger) processed(ev *event.Event, s success) {
	l.edit(SubjectOf(ev), func(r *row) {
		l.supersede(r, ev, s.run)
		if l.requeues.Len() > 0 && ev.Type == event.Synchronization && ev.Binding().Group == "" {
			l.cancel(func(q *requeue) bool {
				of := q.subject
				return of.hook == ev.Hook && of.kind == event.Change && of.index == ev.Index && of.group == "" && q.run < s.run &&
					q.event.Object.UID == ""
			})
		}
		l.unqueue(r)
		if !s.at.IsZero() {
			l.enqueue(r, &requeue{subject: SubjectOf(&s.again), event: s.again, at: s.at, run: s.run})
		}
	})
}

// Retain drops all of the hooks for which keep returns false.
func (l *Ledger) Retain(keep func(*hook.Hook) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range each(l.contexts) {
		if !keep(c.task.hook) {
			l.drop(c, HookGone)
		}
	}
	for s, r := range l.all() {
		if !keep(s.hook) {
			l.unqueue(r)
			r.previous = nil
			l.put(s, r)
		}
	}
	maps.DeleteFunc(l.lost, func(h *hook.Hook, _ int) bool { return !keep(h) })
}

// movable reports whether the key of an event's object may change.
func movable(ev *event.Event) bool {
	if ev.Type != event.Change {
		return false
	}
	b := &ev.Hook.Kubernetes[ev.Index]
	return b.Group == "" && b.Lanes.Key.Filter() != ""
}

// Enter counts an event that is queued, and sets its key to the lane that its object is in.
func (l *Ledger) Enter(ev *event.Event) {
	if !movable(ev) {
		return
	}
	l.edit(SubjectOf(ev), func(r *row) {
		if r.events++; r.events == 1 {
			r.key, r.keyValue = ev.Key, ev.KeyValue
		}
		ev.Key, ev.KeyValue = r.key, r.keyValue
	})
}

// Key is the key of the lane that the object of an event is in while it has events there; empty if it has none, or may have no other lane.
func (l *Ledger) Key(ev *event.Event) string {
	if r := l.read(ev); r.events > 0 {
		return r.key
	}
	return ""
}

// Leave ends what Enter began: the event no longer waits. If no hook has processed it, and it is the Deleted of an object, nothing
// else drops the version of that.
func (l *Ledger) Leave(ev *event.Event, processed bool) {
	if movable(ev) || !processed {
		l.edit(SubjectOf(ev), func(r *row) { l.leave(r, ev, processed) })
	}
}

func (l *Ledger) leave(r *row, ev *event.Event, processed bool) {
	if movable(ev) {
		r.events = max(0, r.events-1)
	}
	if !processed && ev.Watch == event.Deleted && hasPrevious(ev) {
		l.forget(r, l.listed+1)
	}
}
