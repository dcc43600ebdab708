package watch

import (
	"slices"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Changes counts what happened to a set of objects. Those of the first set count as added.
type Changes struct{ Added, Modified, Deleted int }

func (m *monitor) count(c Changes) {
	for _, sum := range []*Changes{&m.total, &m.recent} {
		sum.Added += c.Added
		sum.Modified += c.Modified
		sum.Deleted += c.Deleted
	}
}

// State is what is known of a kubernetes binding at one moment.
type State struct {
	Objects event.Snapshot
	// Total are the changes since the start, Recent those since Executed.
	Total, Recent Changes
	// Complete tells that the first set has been there. Unlocked, that events leave; until then Held of them wait for
	// the Synchronization.
	Complete, Unlocked bool
	Held               int
	// FilterFails is the number of objects for which the filter fails; FilterError is one of its errors.
	FilterFails int
	FilterError string
	// Troubles are the requests that fail, sorted, each with what to do.
	Troubles []string
}

// State returns what is known of a binding. Before its kind is resolved that is only what keeps it from being resolved.
func (w *Watcher) State(h *hook.Hook, index int) State {
	m := w.monitor(h, index)
	if m == nil {
		return State{Objects: event.NoObjects{}, Troubles: w.Troubles(h, index)}
	}
	return m.state()
}

// Troubles are the requests of a binding that fail, sorted, each with a remedy. It costs less than State.
func (w *Watcher) Troubles(h *hook.Hook, index int) []string {
	w.mu.Lock()
	m, unresolved := w.monitors[address{h, index}], w.unresolved[address{h, index}]
	w.mu.Unlock()
	switch {
	case m != nil:
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.failing()
	case unresolved != "":
		return []string{unresolved}
	}
	return nil
}

// failing requires m.mu.
func (m *monitor) failing() (texts []string) {
	for _, t := range m.troubles {
		texts = append(texts, t.text)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func (m *monitor) state() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{
		Objects: m.copy(), Total: m.total, Recent: m.recent, Complete: !m.filling, Unlocked: m.unlocked, Held: m.held.Len(),
	}
	s.Troubles = m.failing()
	s.FilterFails, s.FilterError = m.failures.of(func(key string) bool { _, has := m.items.Get(key); return has })
	return s
}

// Executed begins to count Recent changes anew for all bindings of a hook.
func (w *Watcher) Executed(h *hook.Hook) {
	for i := range h.Kubernetes {
		if m := w.monitor(h, i); m != nil {
			m.executed()
		}
	}
}

func (m *monitor) executed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent = Changes{}
}
