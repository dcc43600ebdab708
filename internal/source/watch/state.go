package watch

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// State is the state of a kubernetes binding at one moment.
type State struct {
	Objects event.Snapshot
	// Total are the changes since the start, Recent those since Executed.
	Total, Recent Changes
	// Complete: the initial list is complete. Unlocked: events are delivered; until then Held of them wait for the Synchronization.
	Complete, Unlocked bool
	Held               int
	// FilterFails is the number of objects for which the filter fails; FilterError is its last error.
	FilterFails int
	FilterError string
	// Troubles are the requests that fail, sorted, each with a hint.
	Troubles []string
	// Guarding is why objects wait for the guard of the binding, or keep its mark.
	Guarding []string
	// NotInstalled: the binding is optional, and its kind is not installed.
	NotInstalled bool
	// Absent are namespaces of the binding that did not exist when it was enabled, and of which it has no objects.
	Absent []string
}

// State returns the state of a binding. Before it has a monitor, that is only the reason.
func (w *Watcher) State(h *hook.Hook, index int) State {
	m := w.monitor(h, index)
	if m == nil {
		return State{Objects: event.NoObjects{}, Troubles: w.Troubles(h, index)}
	}
	s := m.state()
	s.Troubles = w.Troubles(h, index)
	return s
}

// Troubles are the requests of a binding that fail, sorted, each with a remedy. It costs less than State.
func (w *Watcher) Troubles(h *hook.Hook, index int) (texts []string) {
	w.mu.Lock()
	m, unresolved := w.monitors[address{h, index}], w.unresolved[address{h, index}]
	w.mu.Unlock()
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		texts = m.subs.failing()
	}
	if unresolved != "" {
		texts = append(texts, unresolved)
	}
	return texts
}

func (m *monitor) state() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{
		Objects: m.copy(), Total: m.changes, Recent: m.changes.minus(m.executed), Complete: m.phase != filling, Unlocked: m.phase >= open,
		Held: m.held.Len(),
	}
	s.NotInstalled = m.binding.Optional && m.phase != filling && len(m.subs) == 0
	if m.guard != nil {
		s.Guarding = m.guard.Troubles()
	}
	if last := m.filterError.Load(); last != nil {
		m.items.Scan(func(_ string, it item) bool {
			if isFailure(it.filtered) {
				s.FilterFails, s.FilterError = s.FilterFails+1, *last
			}
			return true
		})
	}
	for _, namespace := range m.absent {
		has := false
		s.Objects.Each(func(o event.Object) bool {
			has = o.Namespace == namespace
			return !has
		})
		if !has {
			s.Absent = append(s.Absent, namespace)
		}
	}
	return s
}

// Executed resets the Recent changes of all bindings of a hook.
func (w *Watcher) Executed(h *hook.Hook) {
	for i := range h.Kubernetes {
		if m := w.monitor(h, i); m != nil {
			m.mu.Lock()
			m.executed = m.changes
			m.mu.Unlock()
		}
	}
}

// Sight is what a binding knows of one object.
type Sight struct {
	// Sees: the binding has the object. Deleting: it is being deleted, Marked: it has the mark of the guard; both are known of bindings with
	// a guard only.
	Sees, Deleting, Marked bool
	// Lacking: it waits for the guard, and is not seen until it is admitted.
	Lacking bool
	// Shard has the object, as far as that can be known: if objects are divided by uid, one that is not seen may belong to any shard but this.
	// It is Everywhere if the objects of the binding are not divided.
	Shard int
	// JSON is the object; nil if it is not seen, or only what a filter makes of it is kept.
	JSON []byte
	// Key is the key of its lane; empty without keys, and for an object that is not seen if it is a jq key.
	Key string
}

// Everywhere and Unknown are what Shard is if it is none.
const (
	Everywhere = -1
	Unknown    = -2
)

// Sight returns what a binding knows of an object.
func (w *Watcher) Sight(h *hook.Hook, index int, namespace, name string) Sight {
	m := w.monitor(h, index)
	if m == nil {
		return Sight{Shard: Everywhere}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := stream.KeyOf(namespace, name)
	it, sees := m.items.Get(key)
	o := it.object
	if !sees {
		o = &stream.Object{Namespace: namespace, Name: name, Kind: m.resource.Kind}
	}
	s := Sight{Sees: sees, Shard: m.shardOf(o), JSON: o.JSON}
	if m.guard != nil {
		s.Lacking, s.Deleting, s.Marked = m.guard.Lacks(key), sees && o.Terminating(), sees && m.guard.Marks(o)
	}
	if m.binding.Group == "" && (sees || m.binding.Lanes.Key.Filter() == "") {
		s.Key = m.laneKey(m.resource.Group, stream.Digested{Object: o, Key: m.keys[key]})
	}
	return s
}

// IsKind reports whether a binding is for a kind: by its own text, or by the kind, resource or short name that it has turned out to be.
func (w *Watcher) IsKind(h *hook.Hook, index int, kind string) bool {
	own := h.Kubernetes[index].Kind
	m := w.monitor(h, index)
	if m == nil {
		return strings.EqualFold(kind, own)
	}
	res := read(m, func() kube.Resource { return m.resource })
	return slices.ContainsFunc(append(strings.Split(res.ShortNames, ","), own, res.Kind, res.Resource, res.GroupResource().String(),
		event.ObjectName{Group: res.Group, Kind: res.Kind}.KindName()),
		func(name string) bool { return strings.EqualFold(kind, name) })
}
