// Package pending keeps deferred work: parked contexts, requeues, and the last version of objects that a hook has processed. It also knows
// the lanes of objects that have waiting events.
//
// Callers may rely on this:
//   - There is at most one requeue of a subject.
//   - Parked contexts keep their order. Beyond the bound the oldest one is dropped. One whose success removes a finalizer is delivered
//     again when there is room.
//   - An object stays in its lane as long as it has events there, even if its key changes.
//
// It starts nothing: callers deliver what is due.
package pending

import (
	"sync"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Pending is the deferred work of all hooks.
type Pending struct {
	Parked   *Parked
	Requeues *Requeues
	Lanes    Lanes
	Previous Previous
}

// New returns an empty Pending. MaxParked and dropped are those of NewParked.
func New(maxParked int, dropped func(ev event.Event, why Reason)) *Pending {
	p := &Pending{Requeues: NewRequeues()}
	p.Parked = NewParked(maxParked, func(ev event.Event, why Reason) {
		p.Lanes.Leave(&ev)
		if why != Superseded { // otherwise the later run has replaced it
			p.Previous.Forget(&ev)
		}
		if dropped != nil {
			dropped(ev, why)
		}
	})
	return p
}

// Retain drops all of the hooks for which keep returns false.
func (p *Pending) Retain(keep func(*hook.Hook) bool) {
	p.Parked.Retain(keep)
	p.Requeues.Retain(keep)
	p.Previous.Retain(keep)
}

// EndBinding drops what would be delivered of a binding whose kind is gone.
func (p *Pending) EndBinding(h *hook.Hook, index int) {
	p.Parked.End(h, index)
	p.Requeues.removeAll(func(q *requeue) bool { return q.event.Of(h, index) })
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

// Lanes are the lanes of objects whose keys may change. It is safe for concurrent use.
type Lanes struct {
	mu sync.Mutex
	of map[Subject]*assignment
}

// assignment is the lane of an object while it has events there.
type assignment struct {
	key, value string
	events     int
}

// movable reports whether the key of an event's object may change.
func movable(ev *event.Event) bool {
	if ev.Type != event.Change {
		return false
	}
	b := &ev.Hook.Kubernetes[ev.Index]
	return b.Group == "" && b.Lanes.Key.Filter() != ""
}

// Enter counts an event that is queued, and sets its key to that of the lane that its object is in.
func (p *Lanes) Enter(ev *event.Event) {
	if !movable(ev) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := SubjectOf(ev)
	if p.of == nil {
		p.of = map[Subject]*assignment{}
	}
	if p.of[s] == nil {
		p.of[s] = &assignment{key: ev.Key, value: ev.KeyValue}
	}
	p.of[s].events++
	ev.Key, ev.KeyValue = p.of[s].key, p.of[s].value
}

// Key is the key of the lane that the object of an event is in while it has events there; empty if it has none, or may have no other lane.
func (p *Lanes) Key(ev *event.Event) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.of[SubjectOf(ev)]; at != nil {
		return at.key
	}
	return ""
}

// Leave ends what Enter began: the event does not wait any more.
func (p *Lanes) Leave(ev *event.Event) {
	if !movable(ev) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := SubjectOf(ev)
	at := p.of[s]
	if at == nil {
		return
	}
	if at.events--; at.events == 0 {
		delete(p.of, s)
	}
}
