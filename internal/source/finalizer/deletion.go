package finalizer

import (
	"context"
	"slices"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// deletions are the objects of a binding with a finalizer that are being deleted, or have left the selectors.
type deletions struct {
	// fates are by uid.
	fates map[string]fate
	// left are objects that the binding has no more, and that may have the finalizer. They are delivered after the Synchronization.
	left []stream.Digested
	// unannounced are the uids of objects that the hook does not know and gets no event of: they were being deleted when the binding got them.
	unannounced map[string]bool
	// known are the uids that the binding has had, until the objects have been found that left before the start; nil afterwards. unfound is
	// the error of the search.
	known   map[string]bool
	unfound string
}

// fate is the state of an object since its Deleting.
type fate int

const (
	// requested: Deleting has been delivered, a run is responsible for the object.
	requested fate = iota + 1
	// kept: the run has kept the finalizer, and Deleting is delivered again.
	kept
	// removed: the finalizer has been removed, with or without Deleting, and the binding still has the object.
	removed
)

// noteKnown notes an object that the binding has, or is about to have.
func (d *deletions) noteKnown(uid string) {
	if d.known != nil {
		d.known[uid] = true
	}
}

// lostFinalizer notes that a finalizer has been removed; last is the object then, if it is known.
func (g *gate) lostFinalizer(r finalizerChange, last *stream.Object) {
	if delete(g.fates, r.uid); last != nil {
		g.floors[r.key] = floor{r.uid, stream.ParseVersion(last.ResourceVersion)}
	}
	if e, ok := g.binding.Get(r.key); ok && e.Object.UID == r.uid {
		g.fates[r.uid] = removed
	}
}

// Decide delivers the first state of an object that is being deleted and has the finalizer as Deleting, when the Synchronization has been
// delivered, and withholds the others.
func (g *gate) Decide(change event.Watch, o *stream.Object) (as event.Watch, reason string, deliver bool) {
	switch {
	case g.phase == gateStarting:
		return change, "the Synchronization will contain it", false
	case change == event.Deleted || !o.Terminating():
		return change, "", true
	case !o.HasFinalizer(g.name):
		return change, "the object is being deleted and does not have the finalizer of the binding", false
	case !g.binding.Open():
		return change, "Deleting follows the Synchronization", false
	case g.fates[o.UID] != 0:
		return change, "Deleting has been delivered, later changes of the object are not", false
	case !g.closed():
		return change, "finalizers are not set", false
	}
	g.fates[o.UID] = requested
	return event.Deleting, "", true
}

// deliverDeleting delivers Deleting again of an object whose finalizer was kept.
func (g *gate) deliverDeleting(o event.Object) {
	g.binding.Update(func() {
		e, ok := g.binding.Get(stream.KeyOf(o.Namespace, o.Name))
		if !ok || e.Object.UID != o.UID || g.fates[o.UID] != kept || g.binding.Muted() {
			return
		}
		delete(g.fates, o.UID)
		g.binding.Fire(event.Modified, e, false)
	})
}

// isUnannounced reports whether an object that is new in an unlocked binding makes no event: it is being deleted, and there is nothing to
// clean up, or that has been requested before the object left the selectors, and Deleted has followed.
func (g *gate) isUnannounced(o *stream.Object) bool {
	return g.closed() && o.Terminating() && (!o.HasFinalizer(g.name) || g.fates[o.UID] != 0)
}

// forget drops the fate of an object whose finalizer has been removed.
func (d *deletions) forget(uid string) {
	if d.fates[uid] >= removed {
		delete(d.fates, uid)
	}
}

// fireLeft delivers that an object is gone, or has left the selectors of the binding with its finalizer.
func (g *gate) fireLeft(e stream.Digested) {
	uid := e.Object.UID
	before := g.fates[uid]
	if before == kept {
		g.fates[uid] = requested
	}
	h, index := g.binding.Of()
	released := h.Kubernetes[index].Deleted || before == requested // by the run with its Deleted, or its Deleting
	if !released {
		g.requestRemoval(g.finalized(e.Object))
	}
	g.binding.Fire(event.Deleted, e, released)
}

// Removed decides about an object that has been deleted, or has left the selectors.
func (g *gate) Removed(before *stream.Object, last stream.Digested) (reason string, deliver bool) {
	uid := before.UID
	switch {
	case g.unannounced[uid]:
		delete(g.unannounced, uid)
		g.forget(uid)
		return "the object was being deleted when the binding got it, the hook does not know it", false
	case !g.closed() || g.binding.Muted():
		return "", true
	case g.fates[uid] >= removed || !before.HasFinalizer(g.name):
		delete(g.fates, uid)
		return "", true
	case !g.binding.Open(): // it may come back and leave again: one Deleted reports it
		g.left = append(slices.DeleteFunc(g.left, func(e stream.Digested) bool { return e.Object.UID == uid }), last)
	default:
		g.fireLeft(last)
	}
	return "", false
}

// Unlocked delivers the deletions that had to wait for the Synchronization.
func (g *gate) Unlocked() {
	g.binding.Each(func(e stream.Digested, _ *stream.Subscription) {
		if e.Object.Terminating() {
			g.binding.Fire(event.Modified, e, false)
		}
	})
	left := g.left
	g.left = nil
	for _, e := range left {
		if has, ok := g.binding.Get(e.Object.Key); !ok || has.Object.UID != e.Object.UID {
			g.fireLeft(e)
		}
	}
}

// release removes the finalizer of an object after a successful run. It tries once, then in the background.
func (g *gate) release(ctx context.Context, ev *event.Event) {
	o, key := ev.Object, stream.KeyOf(ev.Object.Namespace, ev.Object.Name)
	var r finalizerChange
	g.binding.Look(func() {
		object := kube.Finalized{Resource: g.binding.Resource(), Namespace: o.Namespace, Name: o.Name, UID: o.UID}
		has, ok := g.binding.Get(key)
		present := ok && has.Object.UID == o.UID
		if present {
			object.Finalizers = has.Object.Finalizers()
		}
		l := g.lacking[key]
		if ev.Watch == event.Deleted && (present && !g.unannounced[o.UID] || l != nil && l.uid == o.UID) {
			return // it has come back: another event follows
		}
		r = g.removal(object)
	})
	if r.remove {
		g.transmit(ctx, r)
	}
}

// keep decides whether the finalizer of an object stays after a run with its Deleting.
func (g *gate) keep(ev *event.Event) (stays, again bool) {
	e, ok := g.binding.Get(stream.KeyOf(ev.Object.Namespace, ev.Object.Name))
	switch {
	case g.binding.Muted():
		return true, false
	case !ok || e.Object.UID != ev.Object.UID:
		return ev.Hook.Kubernetes[ev.Index].Deleted, false // it has left the selectors: the run with its Deleted releases it
	case !e.Object.HasFinalizer(g.name):
		return false, false
	}
	g.fates[ev.Object.UID] = kept
	return true, true
}
