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
}

// Last returns the object of an event as the hook has seen it last.
func (s *Seen) Last(ev *event.Event) (event.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.of[SubjectOf(ev)]
	return o, ok
}

// Saw replaces what the hook has seen of the object of an event; nothing if it is gone. The texts are shared with the snapshot of the binding as
// long as the object does not change.
func (s *Seen) Saw(ev *event.Event, gone bool) {
	o := ev.Object
	var err error
	if o.Full, err = inMemory(o.Full); err == nil {
		o.Filtered, err = inMemory(o.Filtered)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case gone || err != nil:
		delete(s.of, SubjectOf(ev))
	case s.of == nil:
		s.of = map[Subject]event.Object{SubjectOf(ev): o}
	default:
		s.of[SubjectOf(ev)] = o
	}
}

// inMemory returns a payload that does not count as waiting.
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
	delete(s.of, SubjectOf(ev))
}

// Retain drops all of the hooks for which keep returns false.
func (s *Seen) Retain(keep func(*hook.Hook) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(of Subject, _ event.Object) bool { return !keep(of.hook) })
}
