package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// Finalize adds the finalizers of a hook's bindings to their objects. It returns when all requests have been answered, whatever the
// answers; while the permission is missing it calls stuck with each new reason and retries, until ctx ends. From now on the bindings get
// each object with the finalizer only.
func (w *Watcher) Finalize(ctx context.Context, h *hook.Hook, stuck func(index int, err error)) error {
	errs := make([]error, len(h.Kubernetes))
	var working sync.WaitGroup
	for i := range h.Kubernetes {
		if m := w.gated(h, i); m != nil && read(m, func() bool { return m.gate.todo == nil }) {
			working.Go(func() { errs[i] = w.finalize(ctx, m, func(err error) { stuck(i, err) }) })
		}
	}
	working.Wait()
	return errors.Join(errs...)
}

func (w *Watcher) finalize(ctx context.Context, m *monitor, stuck func(error)) error {
	res := read(m, func() kube.Resource { return m.gate.resource })
	err := retry(ctx, forbiddenDelay, func(err error) {
		m.locked(func() { m.gate.trouble = err.Error() })
		stuck(err)
	}, func() error { return w.opts.Record(ctx, m.hook, m.index, res) })
	if err != nil {
		return err
	}
	todo := newRequests()
	if !m.closeGate(todo) {
		todo.ShutDown()
		return errEnded
	}
	if !w.spawn(m.serve) {
		todo.ShutDown()
		close(m.gate.idle)
		return errEnded
	}
	if !kube.Wait(ctx, 0, m.gate.settled) {
		return ctx.Err()
	}
	if err := m.findLeft(ctx, res); err != nil && ctx.Err() == nil {
		m.log.Warn("Cannot find the objects that have left the selectors of the binding with its finalizer: they keep it. Will retry.",
			"error", err.Error())
		w.spawn(func(ctx context.Context) {
			m.persist(ctx, func() error { return m.findLeft(ctx, res) })
		})
	}
	return ctx.Err()
}

var errEnded = errors.New("the binding has ended")

// backoff returns the delays of what is repeated until it succeeds.
func backoff(longest time.Duration) wait.DelayFunc {
	return wait.Backoff{Duration: minFinalizerDelay, Factor: 2, Steps: 10, Cap: longest}.DelayFunc()
}

// persist calls try until it succeeds or the binding ends.
func (m *monitor) persist(ctx context.Context, try func() error) {
	_ = backoff(maxFinalizerDelay).Until(ctx, false, true, func(context.Context) (bool, error) { return m.at() >= muted || try() == nil, nil })
}

// findLeft finds the objects that have the finalizer and left the selectors before the start. They are delivered as Deleted, after the
// Synchronization. It finds each of them once, and can be repeated until it returns nil. Only what this installation has added counts:
// other installations, and users, may have the same finalizer on objects that the binding does not select.
func (m *monitor) findLeft(ctx context.Context, res kube.Resource) (err error) {
	g := m.gate
	defer func() {
		m.locked(func() {
			if g.unfound = ""; err != nil {
				g.unfound = fmt.Sprintf("cannot find the objects that have left the selectors with the finalizer %s, they keep it: %v", g.name, err)
			} else {
				g.known = nil
			}
		})
	}()
	b := m.binding
	if b.Labels == "" && b.Fields == "" && len(b.Names) == 0 && len(b.Namespaces.Names) == 0 && !b.Namespaces.ByLabels {
		return nil
	}
	found, err := kube.WithFinalizer(ctx, g.client, res, b.Namespaces.Names, g.name)
	if err != nil {
		if kube.IsPermissionMissing(err) && (len(b.Namespaces.Names) == 0 || !res.Namespaced) {
			err = fmt.Errorf("%w: %s", err, kube.Grant("", kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: []string{"list"}}))
		}
		return err
	}
	var failed error // one object does not hold up others
	own := read(m, func() stream.Part { return m.division.own })
	for _, o := range found {
		if !o.AddedBy(g.manager, b.Namespaces.Names) || !own.Has(&stream.Object{UID: o.UID, Namespace: o.Namespace, Name: o.Name}) ||
			read(m, func() bool { return g.known[o.UID] }) { // the binding has had it
			continue
		}
		if err := m.readLeft(ctx, o, false); err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
		}
	}
	return failed
}

// readLeft delivers an object with the finalizer as Deleted, if the binding does not have it. Not again, it has not had it either.
func (m *monitor) readLeft(ctx context.Context, o kube.Finalized, again bool) error {
	g := m.gate
	text, err := kube.Send(ctx, g.client.Get().AbsPath(append(o.Resource.Path(o.Namespace), o.Name)...))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := m.digest(ctx, text)
	if err != nil {
		return err
	}
	m.update(func() {
		it, has := m.items.Get(e.Object.Key)
		switch {
		case m.phase >= muted || g.known[e.Object.UID] && !again || e.Object.UID != o.UID || !e.Object.HasFinalizer(g.name):
			return
		case has && it.object.UID == o.UID && !it.unannounced || g.lacking[e.Object.Key] != nil:
			return // it has come back, and other events follow
		case m.phase == open:
			if again && g.fates[o.UID] == requested {
				g.fates[o.UID] = kept // no run has its Deleting
			}
			m.fireLeft(e)
		default:
			g.left = append(g.left, e)
		}
		g.meet(e.Object.UID)
	})
	return nil
}

// digest makes an entry of the object in an answer.
func (m *monitor) digest(ctx context.Context, text []byte) (stream.Digested, error) {
	o, err := stream.Read(text, m.keepManagedFields)
	if err != nil {
		return stream.Digested{}, err
	}
	r := m.Filter(ctx, o, jq.NewObject(o.JSON, jq.NeedOf(m.filters...)))
	if !r.Done {
		return stream.Digested{}, ctx.Err()
	}
	return stream.Digested{Object: o, Filtered: r.Filtered, Key: r.Key}, nil
}

// setFinalizer is called before the binding has objects.
func (m *monitor) setFinalizer(client rest.Interface, manager string) {
	name := m.binding.Finalizer
	if name == "" || client == nil {
		return
	}
	m.gate = newGate(name)
	m.gate.client, m.gate.manager = client, manager
	m.gate.add = func(ctx context.Context, o kube.Finalized) error {
		_, err := kube.AddFinalizer(ctx, client, o, name, manager)
		return err
	}
	m.gate.remove = func(ctx context.Context, client rest.Interface, o kube.Finalized) ([]byte, error) {
		return kube.RemoveFinalizer(ctx, client, o, name)
	}
}

// Release removes the finalizers of objects after a successful run with these events. It returns when each request has been answered once;
// those that fail are retried in the background.
func (w *Watcher) Release(ctx context.Context, events iter.Seq[event.Event]) {
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, finalizersInFlight)
	for ev := range events {
		m := w.gated(ev.Hook, ev.Index)
		if m == nil {
			continue
		}
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			m.release(ctx, &ev)
		})
	}
}

// DeliverDeletion delivers again the Deleting of an object whose finalizer was kept, or the Deleted of one that has left the selectors,
// unless it has gone or come back meanwhile.
func (w *Watcher) DeliverDeletion(ev event.Event) {
	m := w.gated(ev.Hook, ev.Index)
	switch {
	case m == nil:
	case ev.Watch == event.Deleting:
		m.deliverDeleting(ev.Object)
	default:
		res := read(m, func() kube.Resource { return m.gate.resource })
		o := kube.Finalized{Resource: res, Namespace: ev.Object.Namespace, Name: ev.Object.Name, UID: ev.Object.UID}
		w.spawn(func(ctx context.Context) {
			m.persist(ctx, func() error { return m.readLeft(ctx, o, true) })
		})
	}
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

// Halt ends the events of all bindings with a finalizer, which is not added to any object from now on. Objects whose version is newer than
// the given one lose it: it may have been added after an uninstall has begun to remove all of them.
func (w *Watcher) Halt(reason string, than uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.monitors {
		if m.gate != nil {
			m.halt(reason, than)
		}
	}
}
