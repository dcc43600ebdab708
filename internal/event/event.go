// Package event holds what can happen to a binding of a hook.
//
// Callers may rely on this:
//   - An Event carries its address: the hook and the binding that it is for.
//   - Events are immutable, except that a payload may move between memory and disk behind its back.
//   - Events that wait in a Log take at most about twice the memory of the contexts that they become.
package event

import (
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Type is what kind of thing happened.
type Type int

const (
	Startup Type = iota
	Tick
	Synchronization
	Change
	Validating
	Mutating
	Conversion
	HTTP
)

var kinds = [...]hook.Kind{
	Startup: hook.OnStart, Tick: hook.OnSchedule, Synchronization: hook.OnKubernetes, Change: hook.OnKubernetes,
	Validating: hook.OnValidating, Mutating: hook.OnMutating, Conversion: hook.OnConversion, HTTP: hook.OnHTTP,
}

// Kind is the kind of the bindings that have such events.
func (t Type) Kind() hook.Kind { return kinds[t] }

// String is the kind of the binding, as in the log.
func (t Type) String() string { return string(t.Kind()) }

// Event is one reason to run a hook.
type Event struct {
	Type Type
	Hook *hook.Hook
	// Index is the binding's place among those of its kind.
	Index int
	// Watch says what happened to the object of a Change.
	Watch Watch
	// Object is the object of a Change, with what the binding keeps of it.
	Object Object
}

// Watch is the kind of a change.
type Watch int

const (
	Added Watch = iota + 1
	Modified
	Deleted
)

// String is the word that hooks read: "Added", "Modified" or "Deleted".
func (w Watch) String() string {
	switch w {
	case Added:
		return "Added"
	case Modified:
		return "Modified"
	case Deleted:
		return "Deleted"
	}
	return "Unknown"
}

// Object is what a binding keeps of a Kubernetes object.
type Object struct {
	Namespace, Name string
	// Kind is the object's own kind, such as "Pod".
	Kind string
	// Full is the object's JSON text as the API server sent it, or nil when the binding does not keep it.
	Full Payload
	// Filtered is the JSON text of the filter's result, or nil when the binding has no filter.
	Filtered Payload
}

// Payload is JSON text that may be somewhere else than in memory.
type Payload interface {
	// Len is the size in bytes.
	Len() int
	// Bytes returns the text, which the caller must not change. It fails when it is on a disk that fails.
	Bytes() ([]byte, error)
}

// Memory is a Payload in memory.
type Memory []byte

func (m Memory) Len() int               { return len(m) }
func (m Memory) Bytes() ([]byte, error) { return m, nil }

// Address is the binding that the event is for.
func (e *Event) Address() hook.Address { return hook.Address{Kind: e.Type.Kind(), Index: e.Index} }

// Binding returns what the event's binding has in common with all others. That of Startup has only a name.
func (e *Event) Binding() hook.Binding { return *e.Hook.At(e.Address()).Binding }

// Queue returns the name of the event's queue. A Synchronization that blocks the start belongs to the main queue. Reviews and
// HTTP requests have no queue.
func (e *Event) Queue() string {
	if e.Type == Synchronization && e.Hook.Kubernetes[e.Index].WaitForSynchronization {
		return hook.MainQueue
	}
	return e.Hook.At(e.Address()).Queue
}

// AllowFailure reports whether a run for this event may fail without a retry.
func (e *Event) AllowFailure() bool { return e.Hook.At(e.Address()).AllowFailure }
