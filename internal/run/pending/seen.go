package pending

import (
	"maps"
	"sync"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Seen is what hooks have last seen of the objects of bindings with IncludePrevious, in runs that have succeeded. It keeps nothing for other bindings. It is
// safe for concurrent use.
type Seen struct {
	mu sync.Mutex
	of map[Subject]event.Object
	// lists are those of the runs in flight.
	lists map[*SeenList]bool
}

// SeenList is the initial list of a binding in a run. Runs that began later may end earlier.
type SeenList struct {
	seen  *Seen
	hook  *hook.Hook
	index int
	run   uint64
	// later are the objects that runs have seen, or that have ended, since.
	later map[Subject]bool
}

// Last returns the object of an event as the hook has seen it last.
func (s *Seen) Last(ev *event.Event) (event.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.of[SubjectOf(ev)]
	return o, ok
}

// Saw replaces what the hook has seen of the object of an event in the run-th run; nothing if it is gone. The texts are shared with the snapshot of the
// binding as long as the object does not change.
func (s *Seen) Saw(ev *event.Event, gone bool, run uint64) {
	o, err := objectInMemory(ev.Object)
	s.mu.Lock()
	defer s.mu.Unlock()
	for list := range s.lists {
		if list.run < run {
			list.pass(ev)
		}
	}
	s.set(ev, o, gone || err != nil)
}

// set requires mu.
func (s *Seen) set(ev *event.Event, o event.Object, gone bool) {
	switch {
	case gone:
		delete(s.of, SubjectOf(ev))
	case s.of == nil:
		s.of = map[Subject]event.Object{SubjectOf(ev): o}
	default:
		s.of[SubjectOf(ev)] = o
	}
}

// BeginList is called before the run-th run gets the list of a binding.
func (s *Seen) BeginList(h *hook.Hook, index int, run uint64) *SeenList {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == nil {
		s.lists = map[*SeenList]bool{}
	}
	l := &SeenList{seen: s, hook: h, index: index, run: run, later: map[Subject]bool{}}
	s.lists[l] = true
	return l
}

// Saw notes an object of the list, unless the hook has seen it later.
func (l *SeenList) Saw(object event.Object) {
	o, err := objectInMemory(object)
	ev := &event.Event{Type: event.Change, Hook: l.hook, Index: l.index, Object: object}
	l.seen.mu.Lock()
	defer l.seen.mu.Unlock()
	if !l.later[SubjectOf(ev)] {
		l.seen.set(ev, o, err != nil)
	}
}

// End is called at the end of the run. It does nothing for nil.
func (l *SeenList) End() {
	if l == nil {
		return
	}
	l.seen.mu.Lock()
	defer l.seen.mu.Unlock()
	delete(l.seen.lists, l)
}

// pass requires the lock of Seen.
func (l *SeenList) pass(ev *event.Event) {
	if ev.Hook == l.hook && ev.Index == l.index {
		l.later[SubjectOf(ev)] = true
	}
}

// objectInMemory returns an object whose payloads do not count as waiting.
func objectInMemory(o event.Object) (event.Object, error) {
	var err error
	if o.Full, err = inMemory(o.Full); err == nil {
		o.Filtered, err = inMemory(o.Filtered)
	}
	return o, err
}

func inMemory(p event.Payload) (event.Payload, error) {
	if p == nil {
		return nil, nil
	}
	text, err := p.Bytes()
	return event.Memory(text), err
}

// Forget drops what the hook has seen of an object that is gone. It does nothing for other events.
func (s *Seen) Forget(ev *event.Event) {
	if ev.Type != event.Change || ev.Watch != event.Deleted || !ev.Hook.Kubernetes[ev.Index].IncludePrevious {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for list := range s.lists {
		list.pass(ev)
	}
	delete(s.of, SubjectOf(ev))
}

// Retain drops all of the hooks for which keep returns false.
func (s *Seen) Retain(keep func(*hook.Hook) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(of Subject, _ event.Object) bool { return !keep(of.hook) })
}
