package finalizer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/stream"
	"github.com/shell-operator/shell-operator/internal/source/watch"
)

// Options are the options of the gates of all bindings.
type Options struct {
	// Changes sends the requests, Manager is the field manager of the installation.
	Changes rest.Interface
	Manager string
	// Record records that a binding has its finalizer on a resource, before it is added to the first object.
	Record func(ctx context.Context, h *hook.Hook, index int, res kube.Resource) error
	// InFlight bounds the requests of one call of Release; 16 if it is 0.
	InFlight int
}

// Finalizers adds and removes the finalizers of the objects of bindings. Without gates, as in a dry run, it does nothing.
type Finalizers struct {
	inFlight int
	gate     func(h *hook.Hook, index int) *gate
	gates    func(yield func(*gate) bool)
}

// New returns the finalizers of bindings whose guards are gates.
func New(o Options, of interface {
	Guard(h *hook.Hook, index int) watch.Guard
	Guards() []watch.Guard
}) *Finalizers {
	if o.InFlight == 0 {
		o.InFlight = finalizersInFlight
	}
	return &Finalizers{
		inFlight: o.InFlight,
		gate: func(h *hook.Hook, index int) *gate {
			g, _ := of.Guard(h, index).(*gate)
			return g
		},
		gates: func(yield func(*gate) bool) {
			for _, guard := range of.Guards() {
				if g, ok := guard.(*gate); ok && !yield(g) {
					return
				}
			}
		},
	}
}

// look returns the result of get, which is called with the lock of a binding held.
func look[T any](b *watch.Shelf, get func() T) (result T) {
	b.Look(func() { result = get() })
	return result
}

// Finalize adds the finalizers of a hook's bindings to their objects. It returns when all requests have been answered, whatever the
// answers; while the permission is missing it calls stuck with each new reason and retries, until ctx ends. From now on the bindings get
// each object with the finalizer only.
func (f *Finalizers) Finalize(ctx context.Context, h *hook.Hook, stuck func(index int, err error)) error {
	errs := make([]error, len(h.Kubernetes))
	var working sync.WaitGroup
	for i := range h.Kubernetes {
		if g := f.gate(h, i); g != nil && look(g.binding, func() bool { return g.todo == nil }) {
			working.Go(func() { errs[i] = g.finalize(ctx, h, i, func(err error) { stuck(i, err) }) })
		}
	}
	working.Wait()
	return errors.Join(errs...)
}

func (g *gate) finalize(ctx context.Context, h *hook.Hook, index int, stuck func(error)) error {
	res := look(g.binding, g.binding.Resource)
	err := kube.Retry(ctx, forbiddenDelay, func(err error) {
		g.binding.Look(func() { g.trouble = err.Error() })
		stuck(err)
	}, func() error { return g.Record(ctx, h, index, res) })
	if err != nil {
		return err
	}
	todo := newRequests()
	if !g.close(todo) {
		todo.ShutDown()
		return errEnded
	}
	if !g.binding.Go(g.serve) {
		todo.ShutDown()
		close(g.idle)
		return errEnded
	}
	if !kube.Wait(ctx, 0, g.settled) {
		return ctx.Err()
	}
	if err := g.findLeft(ctx, res); err != nil && ctx.Err() == nil {
		g.binding.Look(func() {
			g.binding.Log(slog.LevelWarn,
				"Cannot find the objects that have left the selectors of the binding with its finalizer: they keep it. Will retry.",
				"error", err.Error())
		})
		g.binding.Go(func(ctx context.Context) { g.persist(ctx, func() error { return g.findLeft(ctx, res) }) })
	}
	return ctx.Err()
}

var errEnded = errors.New("the binding has ended")

// persist calls try until it succeeds or the binding ends.
func (g *gate) persist(ctx context.Context, try func() error) {
	_ = kube.Delays(maxFinalizerDelay).Until(ctx, false, true, func(context.Context) (bool, error) {
		return look(g.binding, g.binding.Muted) || try() == nil, nil
	})
}

// findLeft finds the objects that have the finalizer and left the selectors before the start. They are delivered as Deleted, after the
// Synchronization. It finds each of them once, and can be repeated until it returns nil. Only what this installation has added counts:
// other installations, and users, may have the same finalizer on objects that the binding does not select.
func (g *gate) findLeft(ctx context.Context, res kube.Resource) (err error) {
	defer func() {
		g.binding.Look(func() {
			if g.unfound = ""; err != nil {
				g.unfound = fmt.Sprintf("cannot find the objects that have left the selectors with the finalizer %s, they keep it: %v", g.name, err)
			} else {
				g.known = nil
			}
		})
	}()
	h, index := g.binding.Of()
	b := &h.Kubernetes[index]
	if b.Labels == "" && b.Fields == "" && len(b.Names) == 0 && len(b.Namespaces.Names) == 0 && !b.Namespaces.ByLabels {
		return nil
	}
	found, err := kube.WithFinalizer(ctx, g.Changes, res, b.Namespaces.Names, g.name)
	if err != nil {
		if kube.IsPermissionMissing(err) && (len(b.Namespaces.Names) == 0 || !res.Namespaced) {
			err = fmt.Errorf("%w: %s", err, kube.Grant("", kube.Rule{Group: res.Group, Resource: res.Resource, Verbs: []string{"list"}}))
		}
		return err
	}
	var failed error // one object does not hold up others
	for _, o := range found {
		if !o.AddedBy(g.Manager, b.Namespaces.Names) || !look(g.binding, func() bool {
			return g.binding.Owns(&stream.Object{UID: o.UID, Namespace: o.Namespace, Name: o.Name}) && !g.known[o.UID]
		}) {
			continue // another one's, or the binding has had it
		}
		if err := g.readLeft(ctx, o, false); err != nil && failed == nil {
			failed = fmt.Errorf("%s: %w", strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), err)
		}
	}
	return failed
}

// readLeft delivers an object with the finalizer as Deleted, if the binding does not have it. Not again, it has not had it either.
func (g *gate) readLeft(ctx context.Context, o kube.Finalized, again bool) error {
	text, err := kube.Send(ctx, g.Changes.Get().AbsPath(append(o.Resource.Path(o.Namespace), o.Name)...))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := g.binding.Read(ctx, text)
	if err != nil {
		return err
	}
	g.binding.Update(func() {
		has, ok := g.binding.Get(e.Object.Key)
		switch {
		case g.binding.Muted() || g.known[e.Object.UID] && !again || e.Object.UID != o.UID || !e.Object.HasFinalizer(g.name):
			return
		case ok && has.Object.UID == o.UID && !g.unannounced[o.UID] || g.lacking[e.Object.Key] != nil:
			return // it has come back, and other events follow
		case g.binding.Open():
			if again && g.fates[o.UID] == requested {
				g.fates[o.UID] = kept // no run has its Deleting
			}
			g.fireLeft(e)
		default:
			g.left = append(g.left, e)
		}
		g.noteKnown(e.Object.UID)
	})
	return nil
}

// Release removes the finalizers of objects after a successful run with these events. It returns when each request has been answered once;
// those that fail are retried in the background.
func (f *Finalizers) Release(ctx context.Context, events iter.Seq[event.Event]) {
	var sending sync.WaitGroup
	defer sending.Wait()
	slots := make(chan struct{}, f.inFlight)
	for ev := range events {
		g := f.gate(ev.Hook, ev.Index)
		if g == nil {
			continue
		}
		slots <- struct{}{}
		sending.Go(func() {
			defer func() { <-slots }()
			g.release(ctx, &ev)
		})
	}
}

// DeliverDeletion delivers again the Deleting of an object whose finalizer was kept, or the Deleted of one that has left the selectors,
// unless it has gone or come back meanwhile.
func (f *Finalizers) DeliverDeletion(ev event.Event) {
	g := f.gate(ev.Hook, ev.Index)
	switch {
	case g == nil:
	case ev.Watch == event.Deleting:
		g.deliverDeleting(ev.Object)
	default:
		res := look(g.binding, g.binding.Resource)
		o := kube.Finalized{Resource: res, Namespace: ev.Object.Namespace, Name: ev.Object.Name, UID: ev.Object.UID}
		g.binding.Go(func(ctx context.Context) { g.persist(ctx, func() error { return g.readLeft(ctx, o, true) }) })
	}
}

// Keep keeps the finalizer of an object after a successful run with its Deleting, unless the binding no longer has the object and
// no Deleted of it follows. If again, the object is delivered again on request; otherwise the next version of the hook gets it in its
// Synchronization, or the hook its Deleted.
func (f *Finalizers) Keep(ev event.Event) (stays, again bool) {
	stays = true
	if g := f.gate(ev.Hook, ev.Index); g != nil {
		g.binding.Look(func() { stays, again = g.keep(&ev) })
	}
	return stays, again
}

// Halt ends the events of all bindings with a finalizer, which is not added to any object from now on. Objects whose version is newer than
// the given one lose it: it may have been added after an uninstall has begun to remove all of them.
func (f *Finalizers) Halt(reason string, than uint64) {
	for g := range f.gates {
		g.halt(reason, than)
	}
}
