package watch

import (
	"maps"
	"slices"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// Mute stops the events of a hook. One that the sink is receiving may still arrive: Mute does not wait for the sink. Snapshots
// stay current until Disable.
func (b *bindingSet) Mute(h *hook.Hook) {
	for i := range h.Kubernetes {
		if m := b.monitor(h, i); m != nil {
			m.mute()
		}
	}
}

func (m *monitor) mute() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.phase = event.Log{}, max(m.phase, muted)
	if m.guard != nil {
		m.guard.Muted()
	}
}

// Disable ends a binding without any further event. It waits for the sink if that is receiving one, and for requests of the guard
// that are in flight. Streams that other bindings share continue. Enable must not be running for it.
func (w *Watcher) Disable(h *hook.Hook, index int) {
	a := address{h, index}
	w.mu.Lock()
	m := w.monitors[a]
	w.mu.Unlock()
	if m != nil {
		w.end(m)
	}
}

func (w *Watcher) end(m *monitor) {
	w.mu.Lock()
	if w.monitors[m.address] == m {
		delete(w.monitors, m.address)
	}
	w.mu.Unlock()
	subs, idle := m.end()
	for _, sub := range subs {
		w.streams.Leave(sub)
	}
	if idle != nil {
		<-idle
	}
}

// end returns the subscriptions to leave, and when the guard is idle. The objects stay, for a snapshot that is being taken of a binding
// that was replaced.
func (m *monitor) end() (subs []*stream.Subscription, idle <-chan struct{}) {
	m.order.Lock()
	defer m.order.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	subs = slices.Collect(maps.Keys(m.subs))
	if m.guard != nil {
		idle = m.guard.Ended()
	}
	m.stop()
	m.held, m.phase = event.Log{}, ended
	clear(m.subs)
	clear(m.keys)
	m.writes.settle()
	return subs, idle
}
