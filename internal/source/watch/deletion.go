package watch

import (
	"context"
	"slices"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// deletions are the objects of a binding with a finalizer that are being deleted, or have left the selectors.
type deletions struct {
	// fates are by uid.
	fates map[string]fate
	// left are objects that the binding has no more, and that may have the finalizer. They are delivered after the Synchronization.
	left []stream.Digested
	// known are the uids that the binding has had, until the objects have been found that left before the start; nil afterwards. unfound is
	// why that has failed.
	known   map[string]bool
	unfound string
}

// fate is what has become of an object since its Deleting.
type fate int

const (
	// requested: Deleting has been delivered, a run is responsible for the object.
	requested fate = iota + 1
	// kept: the run has kept the finalizer, and Deleting is delivered again.
	kept
	// removed: the finalizer has been removed, with or without Deleting, and the binding still has the object.
	removed
)

// meet notes an object that the binding has, or is about to have.
func (d *deletions) meet(uid string) {
	if d.known != nil {
		d.known[uid] = true
	}
}

// lostFinalizer notes that a finalizer has been removed; last is the object then, if it is known.
func (m *monitor) lostFinalizer(r finalizerChange, last *stream.Object) {
	g := m.gate
	if delete(g.fates, r.uid); last != nil {
		g.floors[r.key] = floor{r.uid, stream.ParseVersion(last.ResourceVersion)}
	}
	if it, ok := m.items.Get(r.key); ok && it.object.UID == r.uid {
		g.fates[r.uid] = removed
	}
}

// finalizerPass delivers the first state of an object that is being deleted and has the finalizer as Deleting, when the Synchronization has
// been delivered, and withholds the others.
type finalizerPass struct{ *monitor }

func (p finalizerPass) decide(c *Change) (reason string, deliver bool) {
	g, o := p.gate, c.Object
	switch {
	case g.phase == gateStarting:
		return "the Synchronization will contain it", false
	case c.watch == event.Deleted || !o.Terminating():
		return "", true
	case !o.HasFinalizer(g.name):
		return "the object is being deleted and does not have the finalizer of the binding", false
	case p.phase != open:
		return "Deleting follows the Synchronization", false
	case g.fates[o.UID] != 0:
		return "Deleting has been delivered, later changes of the object are not", false
	case !g.closed():
		return "finalizers are not set", false
	}
	g.fates[o.UID] = requested
	c.watch, c.release = event.Deleting, true
	return "", true
}

// deliverDeleting delivers Deleting again of an object whose finalizer was kept.
func (m *monitor) deliverDeleting(o event.Object) {
	g, key := m.gate, stream.KeyOf(o.Namespace, o.Name)
	m.update(func() {
		it, ok := m.items.Get(key)
		if !ok || it.object.UID != o.UID || g.fates[o.UID] != kept || m.phase >= muted {
			return
		}
		delete(g.fates, o.UID)
		m.fire(Change{watch: event.Modified, Digested: m.digested(it)})
	})
}

// isUnannounced reports whether an object that is new in an unlocked binding makes no event: it is being deleted, and there is nothing to
// clean up, or that has been requested before the object left the selectors, and Deleted has followed.
func (g *gate) isUnannounced(o *stream.Object) bool {
	return g.closed() && o.Terminating() && (!o.HasFinalizer(g.name) || g.fates[o.UID] != 0)
}

// forget drops what is known of an object whose finalizer has been removed.
func (d *deletions) forget(uid string) {
	if d.fates[uid] >= removed {
		delete(d.fates, uid)
	}
}

// fireLeft delivers that an object is gone, or has left the selectors of the binding with its finalizer.
func (m *monitor) fireLeft(e stream.Digested) {
	g, n, uid := m.gate, len(m.fired), e.Object.UID
	before := g.fates[uid]
	if before == kept {
		g.fates[uid] = requested
	}
	m.fire(Change{watch: event.Deleted, Digested: e})
	switch {
	case !m.binding.Deleted && before != requested:
		m.requestRemoval(g.finalized(e.Object))
	case len(m.fired) > n && m.fired[n].withheld == "":
		m.fired[n].release = true
	}
}

// dropFinalized decides about an item that is dropped. It returns false if that is an event like any other.
func (m *monitor) dropFinalized(it item, c Change) bool {
	g, uid := m.gate, it.object.UID
	switch {
	case !g.closed() || m.phase >= muted:
		return false
	case g.fates[uid] >= removed || !it.object.HasFinalizer(g.name):
		delete(g.fates, uid)
		return false
	case m.phase != open: // it may come back and leave again: one Deleted reports it
		g.left = append(slices.DeleteFunc(g.left, func(e stream.Digested) bool { return e.Object.UID == uid }), c.Digested)
	default:
		m.fireLeft(c.Digested)
	}
	return true
}

// fireDelayed delivers what had to wait for the Synchronization.
func (m *monitor) fireDelayed() {
	g := m.gate
	if g == nil {
		return
	}
	m.items.Scan(func(key string, it item) bool {
		if it.object.Terminating() {
			m.fire(Change{watch: event.Modified, Digested: m.digested(it)})
		}
		return true
	})
	left := g.left
	g.left = nil
	for _, e := range left {
		if it, ok := m.items.Get(e.Object.Key); !ok || it.object.UID != e.Object.UID {
			m.fireLeft(e)
		}
	}
}

// release removes the finalizer of an object after a successful run. It tries once, then in the background.
func (m *monitor) release(ctx context.Context, ev *event.Event) {
	g, o := m.gate, ev.Object
	key := stream.KeyOf(o.Namespace, o.Name)
	m.mu.Lock()
	object := kube.Finalized{Resource: g.resource, Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	it, ok := m.items.Get(key)
	present := ok && it.object.UID == o.UID
	if present {
		object.Finalizers = it.object.Finalizers()
	}
	l := g.lacking[key]
	if ev.Watch == event.Deleted && (present && !it.unannounced || l != nil && l.uid == o.UID) {
		m.mu.Unlock()
		return // it has come back: another event follows
	}
	r := g.removal(object)
	m.mu.Unlock()
	m.transmit(ctx, r)
}

// gated returns the monitor of a binding with a finalizer; nil without one.
func (b *bindingSet) gated(h *hook.Hook, index int) *monitor {
	if m := b.monitor(h, index); m != nil && m.gate != nil {
		return m
	}
	return nil
}

// Keep keeps the finalizer of an object after a successful run with its Deleting, unless the binding no longer has the object and
// no Deleted of it follows. If again, the object is delivered again on request; otherwise the next version of the hook gets it in its
// Synchronization, or the hook its Deleted.
func (b *bindingSet) Keep(ev event.Event) (stays, again bool) {
	m := b.gated(ev.Hook, ev.Index)
	if m == nil {
		return true, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	it, ok := m.items.Get(stream.KeyOf(ev.Object.Namespace, ev.Object.Name))
	switch {
	case m.phase >= muted:
		return true, false
	case !ok || it.object.UID != ev.Object.UID:
		return m.binding.Deleted, false // it has left the selectors: the run with its Deleted releases it
	case !it.object.HasFinalizer(m.gate.name):
		return false, false
	}
	m.gate.fates[ev.Object.UID] = kept
	return true, true
}
