package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Finalize adds the finalizers of a hook's bindings to their objects. It returns when all requests have been answered, whatever the answers;
// while the permission is missing it calls stuck with each new reason and retries, until ctx ends. From now on the bindings get each
// object with the finalizer only.
func (w *Watcher) Finalize(ctx context.Context, h *hook.Hook, stuck func(index int, err error)) error {
	errs := make([]error, len(h.Kubernetes))
	var working sync.WaitGroup
	for i := range h.Kubernetes {
		if m := w.monitor(h, i); m != nil && m.finalizing != nil {
			working.Go(func() { errs[i] = w.finalize(ctx, m, func(err error) { stuck(i, err) }) })
		}
	}
	working.Wait()
	return errors.Join(errs...)
}

func (w *Watcher) finalize(ctx context.Context, m *monitor, stuck func(error)) error {
	f := m.finalizing
	m.mu.Lock()
	res := f.resource
	m.mu.Unlock()
	if err := m.record(ctx, w.opts.Record, res, stuck); err != nil {
		return err
	}
	w.spawn(m.dispatch)
	if !m.activate() {
		return errEnded
	}
	select {
	case <-f.settled:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := m.findLeft(ctx, w.opts.Changes, res); err != nil && ctx.Err() == nil {
		m.log.Warn("Cannot find the objects that have left the selectors of the binding with its finalizer: they keep it. Will retry.", "error", err.Error())
		w.spawn(func(ctx context.Context) {
			m.persist(ctx, func() error { return m.findLeft(ctx, w.opts.Changes, res) })
		})
	}
	return ctx.Err()
}

var errEnded = errors.New("the binding has ended")

// persist calls try until it succeeds or the binding ends.
func (m *monitor) persist(ctx context.Context, try func() error) {
	for delay := minFinalizerDelay; ; delay = min(2*delay, maxFinalizerDelay) {
		select {
		case <-time.After(delay):
		case <-m.finalizing.ended:
			return
		case <-ctx.Done():
			return
		}
		if m.isMuted() || try() == nil {
			return
		}
	}
}

// record retries until the record has the finalizer.
func (m *monitor) record(ctx context.Context, record func(context.Context, *hook.Hook, int, kube.Resource) error, res kube.Resource, stuck func(error)) error {
	delay, last := minFinalizerDelay, ""
	for {
		err := record(ctx, m.hook, m.index, res)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if text := err.Error(); text != last {
			last = text
			m.mu.Lock()
			m.finalizing.trouble = text
			m.mu.Unlock()
			stuck(err)
		}
		delay = min(2*delay, forbiddenDelay)
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// findLeft finds the objects that have the finalizer and left the selectors before the start. They are delivered as Deleted, after the
// Synchronization. It finds each of them once, and can be repeated until it returns nil.
func (m *monitor) findLeft(ctx context.Context, client rest.Interface, res kube.Resource) (err error) {
	f := m.finalizing
	defer func() {
		m.locked(func() {
			if f.unfound = ""; err != nil {
				f.unfound = fmt.Sprintf("cannot find the objects that have left the selectors with the finalizer %s, they keep it: %v", f.name, err)
			} else {
				f.known = nil
			}
		})
	}()
	b := m.binding
	if b.Labels == "" && b.Fields == "" && len(b.Names) == 0 && len(b.Namespaces.Names) == 0 && !b.Namespaces.ByLabels {
		return nil
	}
	found, err := m.withFinalizer(ctx, client, res)
	if err != nil {
		return err
	}
	var failed error // one object does not hold up others
	for _, o := range found {
		if m.isKnown(o.UID) {
			continue
		}
		if err := m.readLeft(ctx, client, o, false); err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
		}
	}
	return failed
}

// readLeft delivers an object with the finalizer as Deleted, if the binding does not have it. Not again, it has not had it either.
func (m *monitor) readLeft(ctx context.Context, client rest.Interface, o kube.Finalized, again bool) error {
	text, err := kube.Send(ctx, client.Get().AbsPath(append(o.Resource.Path(o.Namespace), o.Name)...))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := m.digest(ctx, m.anySubscription(), text)
	if err != nil {
		return err
	}
	f := m.finalizing
	m.update(func() {
		it, has := m.items.Get(e.object.key)
		switch {
		case m.muted || m.ended || f.known[e.object.uid] && !again || e.object.uid != o.UID || !e.object.has(f.name):
			return
		case has && it.object.uid == o.UID || f.claims[e.object.key] != nil:
			return // it has come back
		case m.unlocked:
			if again && f.deleting[o.UID] {
				f.kept[o.UID] = true // no run has its Deleting
			}
			m.fireLeft(e)
		default:
			f.left = append(f.left, e)
		}
		f.meet(e.object.uid)
	})
	return nil
}

// anySubscription returns one of the binding, for what is read beside the streams.
func (m *monitor) anySubscription() *subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.subs {
		if s.consumer == consumer(m) {
			return s
		}
	}
	return &subscription{consumer: m}
}

// isKnown reports whether the binding has had an object.
func (m *monitor) isKnown(uid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finalizing.known[uid]
}

// withFinalizer lists what has the finalizer: in all namespaces or, if that is forbidden, in those of the binding.
func (m *monitor) withFinalizer(ctx context.Context, client rest.Interface, res kube.Resource) ([]kube.Finalized, error) {
	name, namespaces := m.finalizing.name, m.binding.Namespaces.Names
	found, err := kube.WithFinalizer(ctx, client, res, "", name)
	if !apierrors.IsForbidden(err) || len(namespaces) == 0 || !res.Namespaced {
		if kube.IsPermissionMissing(err) {
			err = fmt.Errorf("%w: %s", err, kube.Grant("", kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: []string{"list"}}))
		}
		return found, err
	}
	for _, namespace := range namespaces {
		some, err := kube.WithFinalizer(ctx, client, res, namespace, name)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// setFinalizer is called before the binding has objects.
func (m *monitor) setFinalizer(client rest.Interface, warned func(hook string)) {
	name := m.binding.Finalizer
	if name == "" || client == nil {
		return
	}
	m.finalizing = newFinalizing(name)
	receiveWarnings := func(ctx context.Context) context.Context {
		return kube.WithWarnings(ctx, func(about, text string) {
			m.log.Warn("The API server warns about a change of a finalizer", "object", about, "warning", text)
			if warned != nil {
				warned(m.hook.Name)
			}
		})
	}
	m.finalizing.add = func(ctx context.Context, o kube.Finalized) ([]byte, error) {
		return kube.AddFinalizer(receiveWarnings(ctx), client, o, name)
	}
	m.finalizing.remove = func(ctx context.Context, o kube.Finalized) ([]byte, error) {
		return kube.RemoveFinalizer(receiveWarnings(ctx), client, o, name)
	}
}

// Release removes the finalizers of objects after a successful run with these events. It returns when each request has been answered once;
// those that fail are retried in the background.
func (w *Watcher) Release(ctx context.Context, events iter.Seq[event.Event]) {
	var sending sync.WaitGroup
	defer sending.Wait()
	places := make(chan struct{}, finalizersInFlight)
	for ev := range events {
		m := w.monitor(ev.Hook, ev.Index)
		if m == nil || m.finalizing == nil {
			continue
		}
		places <- struct{}{}
		sending.Go(func() {
			defer func() { <-places }()
			m.release(ctx, &ev)
		})
	}
}

// Keep keeps the finalizer of an object after a successful run with its Deleting, unless the binding does not have the object any more. If again,
// DeliverDeletion will deliver it; otherwise the next version of the hook gets it.
func (w *Watcher) Keep(ev event.Event) (kept, again bool) {
	m := w.monitor(ev.Hook, ev.Index)
	if m == nil || m.finalizing == nil {
		return true, false
	}
	return m.keepFinalizer(ev.Object)
}

// DeliverDeletion delivers again the Deleting of an object whose finalizer was kept, or the Deleted of one that has left the selectors, unless it has
// gone or come back meanwhile.
func (w *Watcher) DeliverDeletion(ev event.Event) {
	m := w.monitor(ev.Hook, ev.Index)
	switch {
	case m == nil || m.finalizing == nil:
	case ev.Watch == event.Deleting:
		m.deliverDeleting(ev.Object)
	default:
		o := m.finalized(ev.Object)
		w.spawn(func(ctx context.Context) {
			m.persist(ctx, func() error { return m.readLeft(ctx, w.opts.Changes, o, true) })
		})
	}
}

// ReleaseObject removes the finalizer of one object without a run. The object gets it again when the hook starts again.
func (w *Watcher) ReleaseObject(ctx context.Context, h *hook.Hook, index int, namespace, name string) error {
	m := w.monitor(h, index)
	if m == nil || m.finalizing == nil {
		return errNoFinalizer
	}
	return m.releaseObject(ctx, namespace, name)
}

// IsKind reports whether a binding is for a kind: by its own text, or by the kind or resource that it has turned out to be.
func (w *Watcher) IsKind(h *hook.Hook, index int, kind string) bool {
	m := w.monitor(h, index)
	if m == nil || m.finalizing == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	res := m.finalizing.resource
	return strings.EqualFold(kind, m.binding.Kind) || strings.EqualFold(kind, res.Kind) || strings.EqualFold(kind, res.Resource) ||
		strings.EqualFold(kind, res.GroupResource().String())
}

var errNoFinalizer = errors.New("the binding has no finalizer")

func (m *monitor) releaseObject(ctx context.Context, namespace, name string) error {
	f := m.finalizing
	m.mu.Lock()
	key := objectKey(namespace, name)
	it, ok := m.items.Get(key)
	if !ok || !it.object.has(f.name) {
		m.mu.Unlock()
		return errNotFinalized
	}
	f.released[it.object.uid] = true
	o := f.object(it.object)
	m.mu.Unlock()
	r := &request{remove: true, key: key, object: o}
	text, err := f.remove(ctx, o)
	if err == nil || apierrors.IsNotFound(err) {
		m.finalizerRemoved(r, text, err)
		return nil
	}
	return err
}

var errNotFinalized = errors.New("the binding has no such object with its finalizer")

// Halt ends the events of all bindings with a finalizer, which is not added to any object from now on. Objects whose version is newer than the
// given one lose it: it may have been added after an uninstall has begun to remove all of them.
func (w *Watcher) Halt(reason string, than uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.monitors {
		if m.finalizing != nil {
			m.halt(reason, than)
		}
	}
}
