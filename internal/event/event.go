// Package event defines events of bindings and the objects in them.
//
// Callers may rely on this:
//   - An Event has an address: the hook and the binding that it is for.
//   - Events are immutable. A payload is in memory or, beyond the limit of a Spool, on disk.
//   - Events that wait in a Log take at most about twice the memory of the contexts that they become.
package event

import (
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Type is the type of an event.
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

// Kind is the kind of binding that has such events.
func (t Type) Kind() hook.Kind { return kinds[t] }

// String is the kind of the binding, as in the log.
func (t Type) String() string { return string(t.Kind()) }

// Event is one reason to run a hook.
type Event struct {
	Type Type
	Hook *hook.Hook
	// Index is the place of the binding among the bindings of its kind.
	Index int
	// Watch is the kind of a Change.
	Watch Watch
	// Initial marks a Change that reports an object of the initial list.
	Initial bool
	// Object is the object of a Change, as far as the binding keeps it.
	Object Object
	// Key is the key of the object in a keyed queue. It is empty without one, and for bindings with a group.
	Key string
	// KeyValue is the value of which Key is a hash; empty if it is none.
	KeyValue string
	// Retried marks the event that replaces parked ones. Its object is read at the start of each attempt.
	Retried bool
}

// Watch is the kind of a change.
type Watch int

const (
	Added Watch = iota + 1
	Modified
	Deleted
	// Requeued: nothing has changed, a run has requested the event. Also of ticks and Synchronizations.
	Requeued
	// Deleting: the object waits for the removal of the binding's finalizer.
	Deleting
)

// String is the value of watchEvent: "Added", "Modified", "Deleted" or "Deleting".
func (w Watch) String() string {
	switch w {
	case Added:
		return "Added"
	case Modified:
		return "Modified"
	case Deleted:
		return "Deleted"
	case Requeued:
		return "Requeued"
	case Deleting:
		return "Deleting"
	}
	return "Unknown"
}

// Object is a Kubernetes object as far as a binding keeps it.
type Object struct {
	Namespace, Name string
	// Kind is the kind of the object, such as "Pod".
	Kind string
	// Full is the object as JSON text from the API server; nil if the binding does not keep it.
	Full Payload
	// Filtered is the result of the filter as JSON text; nil without a filter.
	Filtered Payload
	// UID is set in events whose successful run removes the finalizer of the binding: Deleting, and Deleted of an object that may still exist.
	UID string
	// Deleting is set in snapshots: the object is being deleted and has the finalizer of the binding.
	Deleting bool
}

// Size is the number of bytes of the payloads.
func (o *Object) Size() (n int) {
	for _, p := range []Payload{o.Full, o.Filtered} {
		if p != nil {
			n += p.Len()
		}
	}
	return n
}

// Payload is JSON text in memory or on disk.
type Payload interface {
	// Len is the size in bytes.
	Len() int
	// Bytes returns the text, which the caller must not modify. It fails when the disk fails.
	Bytes() ([]byte, error)
}

// Memory is a Payload in memory.
type Memory []byte

func (m Memory) Len() int               { return len(m) }
func (m Memory) Bytes() ([]byte, error) { return m, nil }

// Address is the binding that the event is for.
func (e *Event) Address() hook.Address { return hook.Address{Kind: e.Type.Kind(), Index: e.Index} }

// Of reports whether the event is of a kubernetes binding.
func (e *Event) Of(h *hook.Hook, index int) bool {
	return e.Hook == h && e.Index == index && (e.Type == Change || e.Type == Synchronization)
}

// Binding returns what the event's binding has in common with all others. That of Startup has only a name.
func (e *Event) Binding() hook.Binding { return *e.Hook.At(e.Address()).Binding }

// Queue returns the name of the event's queue. A Synchronization that blocks the start belongs to the main queue, one that is requeued
// does not. Reviews and HTTP requests have no queue.
func (e *Event) Queue() string {
	if e.Type == Synchronization && e.Watch != Requeued && e.Hook.Kubernetes[e.Index].WaitForSynchronization {
		return hook.MainQueue
	}
	return e.Hook.At(e.Address()).Queue
}

// Refreshed reports whether each attempt reads the object: the event is not of one moment.
func (e *Event) Refreshed() bool {
	return (e.Retried || e.Watch == Requeued) && e.Type == Change && e.Binding().Group == ""
}
