package watch

import (
	"context"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Move makes a binding belong to another hook: its objects, the events that it holds back and those to come. It tells
// whether there was anything to move. The two bindings have to want the same. Enable must not be running for the first.
func (w *Watcher) Move(from *hook.Hook, fromIndex int, to *hook.Hook, toIndex int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.monitors[address{from, fromIndex}]
	if m == nil {
		return false
	}
	delete(w.monitors, address{from, fromIndex})
	w.monitors[address{to, toIndex}] = m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owner.Store(&owner{address{to, toIndex}, m.owner.Load().stuck})
	m.sink.Objects(to, toIndex, m.items.Len())
	return true
}

// Disable ends a binding: no events come of it any more, not even for objects that it has seen. Enable must not be
// running for it.
func (w *Watcher) Disable(h *hook.Hook, index int) {
	w.mu.Lock()
	m := w.monitors[address{h, index}]
	delete(w.monitors, address{h, index})
	w.mu.Unlock()
	if m == nil {
		return
	}
	for _, sub := range m.end() {
		w.leave(sub)
	}
}

// end lets go of everything and returns the subscriptions that are to be left.
func (m *monitor) end() []*subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	var subs []*subscription
	for sub := range m.subs {
		if sub.consumer == consumer(m) {
			sub.left = true // a follower finds out by itself that nothing can be subscribed any more
		}
		subs = append(subs, sub)
	}
	m.subs, m.held, m.unlocked, m.ended = nil, event.Log{}, false, true
	m.items.Clear()
	return subs
}

// adopt returns the monitor that has been moved to a binding, if there is one, and lets it tell its new owner of trouble.
func (w *Watcher) adopt(h *hook.Hook, index int, stuck func(error)) *monitor {
	m := w.monitor(h, index)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owner.Store(&owner{address{h, index}, stuck})
	return m
}

// wait waits for the first complete set.
func (m *monitor) wait(ctx context.Context) error {
	select {
	case <-m.filled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
