// Package event holds what can happen to a binding of a hook.
//
// Callers may rely on this:
//   - An Event carries its address: the hook and the binding that it is for.
//   - Events are immutable, except that a payload may move between memory and disk behind its back.
//   - Events that wait in a Log take less memory than what a hook will be told of them, and come out as they went in.
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

// String is the binding type in the words of the logs: "onStartup", "schedule", "kubernetes", ….
func (t Type) String() string {
	switch t {
	case Startup:
		return "onStartup"
	case Tick:
		return "schedule"
	case Synchronization, Change:
		return "kubernetes"
	case Validating:
		return "kubernetesValidating"
	case Mutating:
		return "kubernetesMutating"
	case Conversion:
		return "kubernetesCustomResourceConversion"
	case HTTP:
		return "http"
	}
	return "unknown"
}

// Event is one reason to run a hook.
type Event struct {
	Type Type
	Hook *hook.Hook
	// Index is the binding's place in the list of the hook that belongs to Type
	// (Hook.Schedules for Tick, Hook.Kubernetes for Synchronization and Change, …).
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

// Binding returns what the event's binding has in common with all others.
// The binding of Startup has only a name.
func (e *Event) Binding() hook.Binding {
	switch e.Type {
	case Tick:
		return e.Hook.Schedules[e.Index].Binding
	case Synchronization, Change:
		return e.Hook.Kubernetes[e.Index].Binding
	case Validating:
		return e.Hook.Validating[e.Index].Binding
	case Mutating:
		return e.Hook.Mutating[e.Index].Binding
	case Conversion:
		return e.Hook.Conversions[e.Index].Binding
	case HTTP:
		return e.Hook.HTTP[e.Index].Binding
	}
	return hook.Binding{Name: "onStartup"}
}

// Queue returns the name of the queue that the event belongs to.
// Synchronizations that others wait for, and start-up, belong to the main queue; reviews and HTTP requests to none.
func (e *Event) Queue() string {
	switch e.Type {
	case Startup:
		return hook.MainQueue
	case Tick:
		return e.Hook.Schedules[e.Index].Queue
	case Synchronization:
		if e.Hook.Kubernetes[e.Index].WaitForSynchronization {
			return hook.MainQueue
		}
		return e.Hook.Kubernetes[e.Index].Queue
	case Change:
		return e.Hook.Kubernetes[e.Index].Queue
	}
	return ""
}

// AllowFailure tells whether a run for this event may fail without being tried again.
func (e *Event) AllowFailure() bool {
	switch e.Type {
	case Tick:
		return e.Hook.Schedules[e.Index].AllowFailure
	case Synchronization, Change:
		return e.Hook.Kubernetes[e.Index].AllowFailure
	}
	return false
}
