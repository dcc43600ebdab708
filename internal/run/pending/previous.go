package pending

import (
	"maps"
	"sync"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Previous has the last version of each object that a hook has processed: those of bindings with IncludePrevious, of runs that have
// succeeded. It keeps nothing for other bindings. It is safe for concurrent use.
type Previous struct {
	mu sync.Mutex
	of map[Subject]event.Object
	// lists are those of the runs in flight.
	lists map[*PreviousList]bool
}

// PreviousList is the initial list of a binding in a run. Runs that began later may end earlier.
type PreviousList struct {
	previous *Previous
	hook     *hook.Hook
	index    int
	run      uint64
	// later are the objects that runs have processed, or that have ended, since.
	later map[Subject]bool
}

// Last returns the object of an event as the hook has processed it last.
func (s *Previous) Last(ev *event.Event) (event.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.of[SubjectOf(ev)]
	return o, ok
}

// Remember replaces the version of the object of an event after the run-th run; it drops it if the object is gone. The texts are shared
// with the snapshot of the binding as long as the object does not change.
func (s *Previous) Remember(ev *event.Event, gone bool, run uint64) {
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
func (s *Previous) set(ev *event.Event, o event.Object, gone bool) {
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
func (s *Previous) BeginList(h *hook.Hook, index int, run uint64) *PreviousList {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == nil {
		s.lists = map[*PreviousList]bool{}
	}
	l := &PreviousList{previous: s, hook: h, index: index, run: run, later: map[Subject]bool{}}
	s.lists[l] = true
	return l
}

// Remember keeps an object of the list, unless the hook has processed it later.
func (l *PreviousList) Remember(object event.Object) {
	o, err := objectInMemory(object)
	ev := &event.Event{Type: event.Change, Hook: l.hook, Index: l.index, Object: object}
	l.previous.mu.Lock()
	defer l.previous.mu.Unlock()
	if !l.later[SubjectOf(ev)] {
		l.previous.set(ev, o, err != nil)
	}
}

// End is called at the end of the run. It does nothing for nil.
func (l *PreviousList) End() {
	if l == nil {
		return
	}
	l.previous.mu.Lock()
	defer l.previous.mu.Unlock()
	delete(l.previous.lists, l)
}

// pass requires the lock of Previous.
func (l *PreviousList) pass(ev *event.Event) {
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

// Forget drops an object that is gone. It does nothing for other events.
func (s *Previous) Forget(ev *event.Event) {
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
func (s *Previous) Retain(keep func(*hook.Hook) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(of Subject, _ event.Object) bool { return !keep(of.hook) })
}
