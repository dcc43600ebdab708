package watch

import (
	"iter"
	"slices"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/source/selectors"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// writes make runs wait until a binding shows the changes by earlier runs of the hook.
type writes struct {
	*monitor
	waits []*showing
}

// showing is a wait for a binding to show changes by runs of the hook.
type showing struct {
	writes []effect.Write
	shown  chan struct{}
}

// Delivers returns what the streams of a hook's bindings will deliver of a change by one of its runs; nothing if they select other objects.
func (b *bindingSet) Delivers(h *hook.Hook, a effect.Answered) (all []effect.Write) {
	b.mu.Lock()
	for _, m := range b.monitors {
		m.proves(a)
	}
	b.mu.Unlock()
	var o *selectors.Answered
	for i := range h.Kubernetes {
		m := b.monitor(h, i)
		if m == nil || !m.isOf(a) {
			continue
		}
		if o == nil {
			o = selectors.ReadAnswer(a)
		}
		all = append(all, m.writes.writesOf(o)...)
	}
	return all
}

// isOf reports whether the binding is of the resource of a change.
func (m *monitor) isOf(a effect.Answered) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resource.Group == a.Group && m.resource.Resource == a.Resource
}

// writesOf returns what the streams of the binding will deliver of a change: because they select the object as it is now, or as it was.
func (m *writes) writesOf(o *selectors.Answered) (all []effect.Write) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := effect.Write{Stream: m.resource.GroupResource().String(), Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	if o.Gone {
		return []effect.Write{w}
	}
	if w.Version = stream.ParseVersion(o.ResourceVersion); w.Version == 0 {
		return nil
	}
	key := stream.KeyOf(o.Namespace, o.Name)
	it, has := m.items.Get(key)
	for sub, s := range m.subs {
		if sub.Consumer == stream.Consumer(m.monitor) && s.delivers(key, has && it.from == sub, lastWrite{w.Version, selectors.Selects(sub, o)}) {
			w.Stream = s.selection
			all = append(all, w)
		}
	}
	return all
}

// lastWrite is the last change of an object by the hook, and whether a subscription selects the object since.
type lastWrite struct {
	version  uint64
	selected bool
}

// maxWritten limits the changes that a source remembers.
const maxWritten = 256

// Processed returns a change that the snapshots of a binding lack, and what returns a channel that is closed when they lack none of them
// any more, or cannot be expected to show them; nil if that is so now.
func (b *bindingSet) Processed(h *hook.Hook, index int, writes iter.Seq[effect.Write]) (lacking effect.Write,
	shown func() <-chan struct{}) {
	m := b.monitor(h, index)
	if m == nil {
		return lacking, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	lacking, lacks := m.writes.lacks(writes)
	if !lacks {
		return lacking, nil
	}
	return lacking, func() <-chan struct{} { return m.writes.await(slices.Collect(writes)) }
}

func (m *writes) await(writes []effect.Write) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := &showing{writes, make(chan struct{})}
	m.waits = append(m.waits, w)
	m.settle()
	return w.shown
}

// settle ends the waits for versions that the binding has. It requires mu.
func (m *writes) settle() {
	if len(m.waits) == 0 {
		return
	}
	m.waits = slices.DeleteFunc(m.waits, func(w *showing) bool {
		_, lacks := m.lacks(slices.Values(w.writes))
		if !lacks {
			close(w.shown)
		}
		return !lacks
	})
}

// lacks returns a change that the snapshots lack. It requires mu.
func (m *writes) lacks(writes iter.Seq[effect.Write]) (effect.Write, bool) {
	if m.phase == ended {
		return effect.Write{}, false
	}
	for w := range writes {
		if w.Version > 0 && m.lags(&w) || w.Version == 0 && m.hasStill(&w) {
			return w, true
		}
	}
	return effect.Write{}, false
}

func (m *writes) hasStill(w *effect.Write) bool {
	it, ok := m.items.Get(stream.KeyOf(w.Namespace, w.Name))
	return ok && it.object.UID == w.UID && w.Stream == m.resource.GroupResource().String() && len(m.subs[it.from].failing) == 0
}

// lags reports whether a stream has not been processed up to a change, or objects of it up to there still wait for the guard.
func (m *writes) lags(w *effect.Write) bool {
	for sub, s := range m.subs {
		if s.selection == w.Stream && sub.Consumer == stream.Consumer(m.monitor) && s.applied < w.Version && len(s.failing) == 0 &&
			!(s.dispensable && s.awaited) {
			return true
		}
	}
	return m.guard != nil && m.guard.Lags(w.Version, func(sub *stream.Subscription) bool { return m.subs[sub].selection == w.Stream })
}

// Reached notes how far a subscription has come.
func (m *monitor) Reached(sub *stream.Subscription, version uint64, listed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.subs[sub]
	if s == nil {
		return
	}
	if listed && version < s.applied {
		clear(s.written) // the API server was set back
	}
	if listed || version > s.applied {
		s.applied = version
	}
	m.writes.settle()
}
