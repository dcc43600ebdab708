// Package watch turns changes of Kubernetes objects into events, and keeps snapshots of the objects.
//
// Callers may rely on this:
//   - Between the initial list of a binding and its events there is no gap and no overlap: each change after the snapshot that Synchronize
//     returned is delivered as an event, once, in order per object.
//   - Bindings with the same resource, namespace and selectors share one list, one watch and the objects' bytes, across hooks.
//   - A running watch is not interrupted when a binding joins or leaves. One with a period of relists is not shared with others.
//   - A binding whose filter or sink is slow delays no other binding.
//   - A binding that cannot be enabled (no such kind yet, no permission, no API server) delays only its own hook, reports why, and is
//     retried.
//   - After an outage the last state of each object is delivered, as the difference to the state before.
//   - A muted binding sends no events; its snapshots stay current until it is disabled or enabled again.
//   - A binding to an optional kind lives as long as its hook. Its streams come and go with the kind: what they bring is Added, what they
//     take Deleted, and only beyond doubt.
//   - A standby has snapshots and no events, for days if need be. Events begin when it leads.
//   - A filter that fails returns null and is reported; it never stops a binding.
//
// Not attempted: intermediate states of an object that changed while the connection was lost, or while more changes waited for a slow
// binding than its queue holds; and an order between different objects.
//
// Locks are taken in this order: Watcher.mu, monitor.order, monitor.mu; none is held together with a lock of package stream. The Sink is
// called with monitor.order held only. Run owns all goroutines.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/installed"
	"github.com/shell-operator/shell-operator/internal/source/stream"
)

// Sink receives events. A method that blocks delays its binding only. It must not call the Watcher.
type Sink interface {
	// Event receives an event of an unlocked binding.
	Event(event.Event)
	// Keep stores bytes that an event carries until its run. It may write to a disk.
	Keep([]byte) event.Payload
	// Objects receives the number of objects of a binding.
	Objects(h *hook.Hook, index, n int)
	// Gone receives an object that a binding has no more, before the event about it.
	Gone(h *hook.Hook, index int, o event.Object)
}

// Meter measures what watching costs, and counts what fails. Its methods must not block.
type Meter interface {
	// FilterFailed counts a failure of a binding's filter, KeyFailed one of a jq key.
	FilterFailed(h *hook.Hook, index int, err error)
	KeyFailed(h *hook.Hook, index int, err error)
	// Filtered receives how long a binding's filter took, Handled how long processing a change took.
	Filtered(h *hook.Hook, index int, took time.Duration)
	Handled(h *hook.Hook, index int, took time.Duration)
	// WatchFailed receives why a watch failed: the API server rejected or ended it ("expired" or "fail"), or the connection ended within an
	// event ("unexpected-eof").
	WatchFailed(reason string)
}

// NoMeter is a Meter that drops everything.
type NoMeter struct{}

func (NoMeter) FilterFailed(*hook.Hook, int, error)     {}
func (NoMeter) KeyFailed(*hook.Hook, int, error)        {}
func (NoMeter) Filtered(*hook.Hook, int, time.Duration) {}
func (NoMeter) Handled(*hook.Hook, int, time.Duration)  {}
func (NoMeter) WatchFailed(string)                      {}

// Options of a Watcher. Config, JQ and Sink are required.
type Options struct {
	Config *rest.Config
	JQ     *jq.Compiler
	Sink   Sink
	Log    *slog.Logger
	// Meter may be nil.
	Meter Meter
	// KeepManagedFields is the default of bindings.
	KeepManagedFields bool
	// Standby bindings follow their objects without events until Lead.
	Standby bool
	// Guard, if set, returns the guard of a binding that has one.
	Guard func(*Shelf) Guard
	// Shards is their number; 0 without. Until Take, Enable enables only bindings that requests need.
	Shards int
	// Listing, if set, receives the resource of a binding, such as "crontabs.example.com", before its initial list.
	Listing func(h *hook.Hook, index int, resource string)
}

// Watcher watches for all kubernetes bindings of all hooks.
type Watcher struct {
	bindingSet
	opts     Options
	client   rest.Interface
	resolver *kube.Resolver
	kinds    *installed.Kinds
	// start hands work to Run, stopped is closed when Run takes no more.
	start   chan func(context.Context)
	stopped chan struct{}

	streams *stream.Pool

	// mu of bindingSet guards the fields below.
	// unresolved has the reasons why bindings have no monitor yet.
	unresolved map[address]string
	// resting is the initial state of new monitors.
	resting bool
	// shard is the shard of this replica; Waiting until Take.
	shard shard.Shard
}

// New returns a Watcher. The API server need not be reachable yet.
func New(opts Options) (*Watcher, error) {
	client, err := kube.NewClient(opts.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for the API server: %w", err)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Meter == nil {
		opts.Meter = NoMeter{}
	}
	if opts.Listing == nil {
		opts.Listing = func(*hook.Hook, int, string) {}
	}
	own := shard.Shard{}
	if opts.Shards > 0 {
		own = shard.Shard{Index: shard.Waiting, Count: opts.Shards}
	}
	w := &Watcher{
		shard: own, opts: opts, client: client, resolver: kube.NewResolver(client), kinds: installed.New(client),
		start: make(chan func(context.Context)), stopped: make(chan struct{}),
		bindingSet: bindingSet{monitors: map[address]*monitor{}}, unresolved: map[address]string{}, resting: opts.Standby,
	}
	w.streams = stream.NewPool(client, opts.Meter.WatchFailed, w.spawn)
	return w, nil
}

// Run watches until ctx ends. It returns when all goroutines have ended.
func (w *Watcher) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	defer close(w.stopped)
	for {
		select {
		case f := <-w.start:
			running.Go(func() { f(ctx) })
		case <-ctx.Done():
			return nil
		}
	}
}

// Enable starts the kubernetes bindings of a hook and returns when their initial lists are complete. It reports each new reason for the
// delay of one, retries until ctx ends, and reports nil when nothing delays it. An error has the method Missing if only a change of the
// cluster ends the delay, or if requests have waited for longestRefusal. Events are held until Unlock or Announce. It may be called again:
// with shards it starts those that this replica needs by then, and it replaces muted ones, whose snapshots stay until the new list is
// complete.
func (w *Watcher) Enable(ctx context.Context, h *hook.Hook, report func(index int, err error)) error {
	errs := make([]error, len(h.Kubernetes))
	var enabling sync.WaitGroup
	for i := range h.Kubernetes {
		if !w.isMissing(h, i) {
			continue
		}
		enabling.Go(func() {
			filling, filled := context.WithCancel(ctx)
			errs[i] = w.enable(ctx, h, i, w.patient(filling, h, i, report))
			if filled(); errs[i] == nil {
				report(i, nil)
			}
		})
	}
	enabling.Wait()
	return errors.Join(errs...)
}

// longestRefusal bounds the wait of requests for a list that the API server answers with errors.
const longestRefusal = 5 * time.Second

// patient returns a function that reports errors of a binding until ctx ends, and the last one again when the API server has answered with
// errors for longestRefusal. Requests wait for a list in progress, and for an API server that cannot be reached: it sends none.
func (w *Watcher) patient(ctx context.Context, h *hook.Hook, index int, report func(index int, err error)) (stuck func(error)) {
	var refusal atomic.Pointer[stream.MissingError]
	var once sync.Once
	return func(err error) {
		report(index, err)
		if stream.TroubleOf(err) == stream.Unreachable {
			refusal.Store(nil)
			return
		}
		text := fmt.Sprintf("requests do not wait for the list after %s: %v", longestRefusal, err)
		refusal.Store(&stream.MissingError{Kind: stream.OtherTrouble, Text: text})
		if errors.As(err, new(*stream.MissingError)) {
			return
		}
		time.AfterFunc(longestRefusal, func() {
			if last := refusal.Load(); last != nil && ctx.Err() == nil && len(w.Troubles(h, index)) > 0 {
				once.Do(func() { report(index, last) })
			}
		})
	}
}

// Rewatch lists and watches the objects of a resource again, after the operator has changed how the API server serves it.
func (w *Watcher) Rewatch(resource string) {
	w.streams.Rewatch(resource)
}

func (w *Watcher) enable(ctx context.Context, h *hook.Hook, index int, stuck func(error)) error {
	b := &h.Kubernetes[index]
	m := newMonitor(h, index, w.opts.Sink, w.opts.Meter, w.opts.Log.With("hook", h.Name, "binding", b.Name))
	m.stuck, m.keepManagedFields = stuck, *cmp.Or(b.KeepManagedFields, &w.opts.KeepManagedFields)
	if err := m.compile(w.opts.JQ); err != nil {
		return err
	}
	if w.opts.Guard != nil && b.Guarded() {
		m.guard = w.opts.Guard(&Shelf{m, w.spawn})
	}
	m.arrange(w.opts.Shards > 0, w.opts.Standby)
	m.take(w.ownShard())
	var muted *monitor
	if b.Optional {
		muted = w.place(m, nil)
		w.spawn(func(run context.Context) { w.attend(run, m) })
	} else {
		var res kube.Resource
		var p plan
		if err := w.retry(ctx, m.address, stuck, func() (err error) {
			if res, err = w.resolver.Resolve(ctx, b.APIVersion, b.Kind, "list", "watch"); err != nil {
				return err
			}
			p, err = w.plan(ctx, m, res)
			return err
		}); err != nil {
			return err
		}
		muted = w.place(m, nil)
		w.follow(m, res, p, nil)
	}
	if !kube.Wait(ctx, 0, m.filled) {
		w.end(m)
		return ctx.Err()
	}
	if muted != nil {
		w.place(m, muted)
		w.end(muted)
	}
	if !b.Optional {
		w.warnOfMissing(m)
	}
	return nil
}

// place makes m the monitor of its binding. It leaves another one in place, and returns it, unless that is the one to replace.
func (w *Watcher) place(m, replaces *monitor) (muted *monitor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.take(w.shard)
	m.rest(w.resting)
	if muted = w.monitors[m.address]; muted == nil || muted == replaces {
		w.monitors[m.address] = m
	}
	return muted
}

// follow subscribes a binding as planned, in place of the subscriptions that descend from before. It returns the root of the new ones,
// which has no stream.
func (w *Watcher) follow(m *monitor, res kube.Resource, p plan, before *stream.Subscription) (root *stream.Subscription) {
	root = &stream.Subscription{}
	if !m.expect(root, source{}) {
		return root
	}
	if before != nil {
		w.abandon(m, before)
	}
	m.setResource(res)
	if namespaces := &m.binding.Namespaces; !res.Namespaced && (namespaces.ByLabels || len(namespaces.Names) > 0) {
		m.log.Warn("The kind is cluster-scoped, its restriction to namespaces is ignored: remove \"namespace\" from the binding",
			"kind", m.binding.Kind)
	}
	c := stream.Consumer(m)
	if p.byLabels {
		c = &follower{watcher: w, monitor: m, base: p.base, subs: map[string][]*stream.Subscription{}}
	}
	w.subscribe(m, c, p, root, false)
	m.locked(func() { m.arrived(root) }) // it is the last one if all the namespaces belong to other shards
	return root
}

// abandon ends a subscription of a binding, and those that descend from it.
func (w *Watcher) abandon(m *monitor, sub *stream.Subscription) {
	for left := range m.abandon(sub) {
		w.streams.Leave(left)
	}
}

// warnOfMissing logs, and keeps, which of a binding's namespaces do not exist. It needs no permission: without it nothing is logged.
func (w *Watcher) warnOfMissing(m *monitor) {
	m.mu.Lock()
	namespaces := m.division.own.OwnNamespaces(m.binding.Namespaces.Names)
	if !m.resource.Namespaced {
		namespaces = nil
	}
	m.absent = nil
	m.mu.Unlock()
	if len(namespaces) == 0 {
		return
	}
	w.spawn(func(ctx context.Context) {
		seen := map[string]bool{}
		m.snapshot().Each(func(o event.Object) bool {
			seen[o.Namespace] = true
			return true
		})
		for _, namespace := range namespaces {
			if seen[namespace] {
				continue
			}
			if _, err := kube.Send(ctx, w.client.Get().AbsPath("/api/v1/namespaces", namespace)); apierrors.IsNotFound(err) {
				m.mu.Lock()
				m.absent = append(m.absent, namespace)
				m.mu.Unlock()
				m.log.Warn("The namespace does not exist (yet): check namespace.nameSelector.matchNames of the binding", "namespace", namespace)
			}
		}
	})
}

// retry calls try, with a back-off, until it succeeds or ctx ends. Meanwhile Troubles returns its error.
func (w *Watcher) retry(ctx context.Context, a address, stuck func(error), try func() error) error {
	defer w.note(a, "")
	return kube.Retry(ctx, 5*time.Second, func(err error) {
		if w.note(a, ""); !errors.Is(err, installed.ErrMissing) { // which is no trouble
			w.note(a, err.Error())
		}
		if kind := stream.TroubleOf(err); kind == stream.Forbidden || kind == stream.NotServed {
			err = &stream.MissingError{Kind: kind, Text: err.Error()}
		}
		stuck(err)
	}, try)
}

// note stores why a binding has no monitor; empty if it may have one.
func (w *Watcher) note(a address, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unresolved[a] = why; why == "" {
		delete(w.unresolved, a)
	}
}

// spawn runs f until it returns, as a part of Run. It returns false if that has ended.
func (w *Watcher) spawn(f func(context.Context)) bool {
	select {
	case w.start <- f:
		return true
	case <-w.stopped:
		return false
	}
}

// subscribe connects a consumer to the streams of a plan. The monitor m waits for all of them together, unless parent is abandoned.
func (w *Watcher) subscribe(m *monitor, c stream.Consumer, p plan, parent *stream.Subscription, dispensable bool) []*stream.Subscription {
	subs := make([]*stream.Subscription, len(p.scopes))
	for i := range p.scopes {
		subs[i] = &stream.Subscription{Consumer: c, Scope: p.scopes[i], Only: p.only, OnlyIn: p.onlyIn}
		if !m.expect(subs[i], source{parent: parent, dispensable: dispensable}) {
			return nil
		}
	}
	for _, sub := range subs {
		w.streams.Join(sub)
	}
	return subs
}

// Lead ends the rest of a standby: changes become events, which are held until Unlock or Announce.
func (w *Watcher) Lead() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resting = false
	for _, m := range w.monitors {
		m.rest(false)
	}
}
