package watch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// address identifies a kubernetes binding.
type address struct {
	hook  *hook.Hook
	index int
}

// bindingSet is what hooks and effects use of kubernetes bindings. A Watcher and a Simulation have them. A binding that has not been
// enabled has no objects.
type bindingSet struct {
	mu       sync.Mutex
	monitors map[address]*monitor
}

func (b *bindingSet) monitor(h *hook.Hook, index int) *monitor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.monitors[address{h, index}]
}

// Guard returns the guard of a binding; nil without one.
func (b *bindingSet) Guard(h *hook.Hook, index int) Guard {
	if m := b.monitor(h, index); m != nil {
		return m.guard
	}
	return nil
}

// Guards returns the guards of all bindings.
func (b *bindingSet) Guards() (all []Guard) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.monitors {
		if m.guard != nil {
			all = append(all, m.guard)
		}
	}
	return all
}

// Snapshot returns the objects of a binding.
func (b *bindingSet) Snapshot(h *hook.Hook, index int) event.Snapshot {
	if m := b.monitor(h, index); m != nil {
		return m.snapshot()
	}
	return event.NoObjects{}
}

// Await returns when a request may get the objects of a binding. Until its watch has been answered, they come from a list, and may be older
// than the request.
func (b *bindingSet) Await(ctx context.Context, h *hook.Hook, index int) {
	m := b.monitor(h, index)
	if m == nil {
		return
	}
	m.mu.Lock()
	selections := make(map[*stream.Subscription]string, len(m.subs))
	for sub, s := range m.subs {
		selections[sub] = s.selection
	}
	m.mu.Unlock()
	for sub, selection := range selections {
		read, held := sub.AwaitWatch(ctx)
		_, shown := b.Processed(h, index, slices.Values([]effect.Write{{Stream: selection, Version: read}}))
		if left := time.Until(held); shown != nil && left > 0 {
			kube.Wait(ctx, left, shown())
		}
	}
}

// Synchronize returns the objects of a binding and drops the events held so far: they led to these objects.
func (b *bindingSet) Synchronize(h *hook.Hook, index int) event.Snapshot {
	if m := b.monitor(h, index); m != nil {
		return m.synchronize()
	}
	return event.NoObjects{}
}

// Object returns an object of a binding as an event of it would carry it; false if there is none, or if the object is being deleted and the
// binding has a guard: nothing but Deleting is delivered then.
func (b *bindingSet) Object(h *hook.Hook, index int, namespace, name string) (ev event.Event, ok bool) {
	m := b.monitor(h, index)
	if m == nil {
		return ev, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	it, ok := m.items.Get(stream.KeyOf(namespace, name))
	if !ok || m.phase >= muted || m.guard != nil && it.object.Terminating() || !m.division.events().Has(it.object) {
		return ev, false
	}
	e := m.digested(it)
	return event.Event{Type: event.Change, Hook: h, Index: index, Object: m.contents(e, inMemory), Key: m.laneKey(m.resource.Group, e)}, true
}

// Has reports whether a binding has an object, also one that is being deleted.
func (b *bindingSet) Has(h *hook.Hook, index int, namespace, name string) bool {
	m := b.monitor(h, index)
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	it, ok := m.items.Get(stream.KeyOf(namespace, name))
	return ok && m.division.events().Has(it.object)
}

// Unlock delivers the held events of a binding, and later ones immediately. It acknowledges that a Synchronization was delivered.
func (b *bindingSet) Unlock(h *hook.Hook, index int) {
	if m := b.monitor(h, index); m != nil {
		m.unlock()
	}
}

// Announce delivers Added for every object of a binding, marked as initial, and later events immediately.
func (b *bindingSet) Announce(h *hook.Hook, index int) {
	if m := b.monitor(h, index); m != nil {
		m.announce()
	}
}
