// Package lifecycle starts hooks, replaces them when their files change, and ends what belongs to them.
//
// Callers may rely on this:
//   - One goroutine, which calls Run, owns the state of all hooks. It never blocks on a hook, the API server or a file.
//   - Hooks start in one order, whenever they are added: onStartup, kubernetes bindings, Synchronizations, schedules.
//   - A set of hooks is replaced as a whole. A set that is rejected changes nothing.
//   - A hook whose configuration is equal in both sets is the same value, and is not interrupted.
//   - A paused hook is stopped as one that is removed, and resumed as one that is added; requests are answered all the time.
//   - A changed hook is removed and added. A new version waits for the runs of the previous one. If
//     it answers requests, those for it go to the previous version until it is ready. Nothing else waits.
//
// Not attempted: to hand tasks and events of a hook over to its next version. Its Synchronization delivers the state.
package lifecycle

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
)

// Watcher watches for kubernetes bindings. See package watch.
type Watcher interface {
	// Enable reports nil for a binding that is enabled, and before that why it is not; see missing.
	Enable(ctx context.Context, h *hook.Hook, report func(index int, err error)) error
	// Finalize adds the finalizers of the bindings to their objects, and returns when that has been tried. It does nothing for bindings that
	// have theirs.
	Finalize(ctx context.Context, h *hook.Hook, stuck func(index int, err error)) error
	Mute(h *hook.Hook)
	Disable(h *hook.Hook, index int)
	Lead()
}

// missing is an error of Enable for which requests do not wait: a kind or a permission is missing, or the API server answers with errors.
type missing interface {
	error
	Missing() (kind bool)
}

// Objects delivers those that bindings have.
type Objects interface {
	// Announce delivers all objects of a binding as events.
	Announce(h *hook.Hook, index int)
	// Object returns an object of a binding as an event; false if there is none to deliver.
	Object(h *hook.Hook, index int, namespace, name string) (event.Event, bool)
	// DeliverDeletion delivers the Deleting or Deleted of an object again whose finalizer was kept.
	DeliverDeletion(event.Event)
}

// Meter measures hooks.
type Meter interface {
	// SetHooks sets the hooks that have metrics.
	SetHooks([]*hook.Hook)
	BindingsEnabled(hook string, took time.Duration)
	BindingsFailed(hook string)
	HooksReloaded(well bool)
	// HookRemoved drops what a hook has handed back.
	HookRemoved(name string)
}

// Renewal replaces the hooks that answer the API server and HTTP clients. Either Commit or Abort is called.
type Renewal interface {
	// Commit lets the new hooks answer as soon as they are ready. Retired is called when Holds may return false for earlier hooks.
	Commit(retired func())
	// Holds reports whether a hook answers requests.
	Holds(*hook.Hook) bool
	Abort()
}

// Options of a Lifecycle. Trace, Exhausted and Changed may be nil.
type Options struct {
	Queues  *queue.Set
	Runner  *run.Runner
	Pending *pending.Ledger
	Watcher Watcher
	Objects Objects
	Clock   *schedule.Clock
	Meter   Meter
	Health  *Health
	Log     *slog.Logger
	// Store has the files of the hooks, and Load are the options with which it loads them.
	Store *hookset.Store
	Load  hookset.Options
	// Reloaded, if set, is called after each reload with the error for which it was rejected, which is then not logged. It must not block.
	Reloaded func(error)
	// Watch reloads the hooks when their files change.
	Watch bool
	// Prepare does what can fail before other hooks answer.
	Prepare func(ctx context.Context, hooks []*hook.Hook) (Renewal, error)
	// Leading is closed when this replica runs hooks. A Standby enables kubernetes bindings before that.
	Leading <-chan struct{}
	Standby bool
	// Taken is closed when this replica has the shard that Shard returns, which may be before it runs hooks: it enables what the runs need
	// meanwhile. Both are nil without shards.
	Taken <-chan struct{}
	Shard func() shard.Shard
	// Exhausted receives each task that has no attempt left.
	Exhausted func(Exhausted)
	// Changed is called with the active hooks after a reload, and when the bindings of a previous version have ended. It must not block.
	Changed func([]*hook.Hook)
	// Trace follows the enabling of a hook's kubernetes bindings until the returned function is called.
	Trace func(context.Context, *hook.Hook) (context.Context, func())
}

// Lifecycle keeps the active set of hooks.
type Lifecycle struct {
	// hashKey is the secret with which hash makes keys unreadable.
	hashKey [32]byte
	o       Options
	// inbox has what the owner is to do.
	inbox chan func()
	// ended is closed at the end of Run.
	ended chan struct{}
	// nudge makes the owner advance.
	nudge chan struct{}
	// view is what other goroutines see. It is replaced, never changed.
	view atomic.Pointer[view]
	// work are the goroutines of enabling, loading and waiting.
	work sync.WaitGroup

	// The goroutine of Run owns what follows.
	ctx context.Context
	// lives are the hooks of the active set in order, leaving those that are Draining, or Gone and not yet
	// forgotten.
	lives, leaving []*life
	// lanes are the keyed queues of the active set.
	lanes map[string]hook.Lanes
	leads bool
	// shard is what this replica serves; Waiting until it is taken.
	shard shard.Shard
	// startupDone: for the first time no hook has an onStartup run to do.
	startupDone bool
	reloading   reloading
}

// life is a hook with its state.
type life struct {
	hook  *hook.Hook
	state State
	// ctx ends when the hook is retired, paused or resumed; then it has another one.
	ctx context.Context
	end context.CancelFunc
	// enabling: a goroutine enables the kubernetes bindings, or adds their finalizers. listed: they all have their initial lists, with shards
	// those that this replica needs. failed: they never will.
	enabling, listed, failed bool
	// finalized: the objects have the finalizers of the bindings, or there are none.
	finalized bool
	// passed: later hooks do not wait for this one's Synchronization, because a binding is in trouble or slow.
	passed atomic.Bool

	// stopped is set when the hook has been retired or paused.
	stopped bool
	// running is set while a run of a stopped hook has not ended, since then; answering until no request is at the hook.
	running, answering bool
	since              time.Time
}

type view struct {
	hooks []*hook.Hook
	// leaving are the hooks that have been changed or removed, and whose bindings have not ended.
	leaving     []*hook.Hook
	states      map[*hook.Hook]State
	lanes       map[string]hook.Lanes
	startupDone bool
}

// New returns a Lifecycle with a first set of hooks, of which nothing has been started.
func New(o Options, first *hookset.Set) *Lifecycle {
	if o.Trace == nil {
		o.Trace = func(ctx context.Context, _ *hook.Hook) (context.Context, func()) { return ctx, func() {} }
	}
	l := &Lifecycle{o: o, inbox: make(chan func()), ended: make(chan struct{}), nudge: make(chan struct{}, 1)}
	_, _ = rand.Read(l.hashKey[:]) // it never fails
	l.ctx = context.Background()
	l.reloading.found = first.Found
	l.o.Store.Use(first, first.Hooks)
	l.add(first.Hooks, first.Hooks)
	return l
}

// Hooks returns the active hooks in order.
func (l *Lifecycle) Hooks() []*hook.Hook { return l.view.Load().hooks }

// Present returns the active hooks, and those that were changed or removed and whose bindings have not ended.
func (l *Lifecycle) Present() []*hook.Hook {
	v := l.view.Load()
	return slices.Concat(v.hooks, v.leaving)
}

// State returns the state of an active hook; Gone for others.
func (l *Lifecycle) State(h *hook.Hook) State {
	if s, ok := l.view.Load().states[h]; ok {
		return s
	}
	return Gone
}

// StartupDone reports whether the onStartup runs of the first hooks have succeeded.
func (l *Lifecycle) StartupDone() bool { return l.view.Load().startupDone }

// Run owns the hooks until ctx ends, and until all it has started has ended.
func (l *Lifecycle) Run(ctx context.Context) {
	defer close(l.ended)
	l.ctx = ctx
	for _, x := range l.lives {
		x.ctx, x.end = context.WithCancel(ctx)
	}
	if l.o.Taken != nil {
		l.shard.Index = shard.Waiting
		l.await(ctx, l.o.Taken, l.take)
	}
	l.await(ctx, l.o.Leading, func() {
		if l.o.Taken != nil && l.shard.Index == shard.Waiting {
			l.take() // both channels are closed
		}
		l.leads = true
		l.keepQueues()
		l.o.Watcher.Lead()
	})
	if l.o.Watch {
		l.work.Go(func() { l.follow(ctx) })
	}
	l.work.Go(func() { l.requeue(ctx) })
	for {
		l.advance()
		l.publish()
		select {
		case do := <-l.inbox:
			do()
		case <-l.nudge:
		case <-ctx.Done():
			l.work.Wait() // not deferred: after a panic it would wait forever for what ctx ends, and the process would not end
			return
		}
	}
}

// take lets the hooks of this replica's shard enable the bindings that only their runs need.
func (l *Lifecycle) take() {
	if l.shard.Index != shard.Waiting {
		return
	}
	l.shard = l.o.Shard()
	for _, x := range l.lives {
		if l.runs(x) {
			x.listed = false
			l.o.Health.Enabling(x.hook)
		}
	}
}

// runs reports whether runs of a hook are on this replica's shard. Others only answer requests.
func (l *Lifecycle) runs(x *life) bool { return l.shard.Runs(x.hook.Settings.ShardBy) }

// post hands work over to the owner. It is lost when ctx has ended.
func (l *Lifecycle) post(ctx context.Context, do func()) {
	unlessEnded := func() {
		if ctx.Err() == nil {
			do()
		}
	}
	select {
	case l.inbox <- unlessEnded:
	case <-ctx.Done():
	}
}

// await posts work when a channel is closed.
func (l *Lifecycle) await(ctx context.Context, closed <-chan struct{}, do func()) {
	l.work.Go(func() {
		select {
		case <-closed:
			l.post(ctx, do)
		case <-ctx.Done():
		}
	})
}

func (l *Lifecycle) publish() {
	v := &view{states: map[*hook.Hook]State{}, lanes: l.lanes, startupDone: l.startupDone}
	for _, x := range l.lives {
		v.hooks = append(v.hooks, x.hook)
		v.states[x.hook] = x.state
	}
	for _, x := range l.leaving {
		v.leaving = append(v.leaving, x.hook)
	}
	l.view.Store(v)
}

// step moves a hook to a state, unless that cannot follow its state: a task of a hook that has been retired may still be running.
func (l *Lifecycle) step(x *life, to State) bool {
	if !slices.Contains(successors[x.state], to) {
		return false
	}
	x.state = to
	l.o.Log.Debug("Hook state changed", "hook", x.hook.Name, "state", to.String())
	return true
}

// add makes hooks the active set. Those that are new begin their lives.
func (l *Lifecycle) add(all, fresh []*hook.Hook) {
	lives := map[*hook.Hook]*life{}
	for _, x := range l.lives {
		lives[x.hook] = x
	}
	for _, h := range fresh {
		x := &life{hook: h}
		x.ctx, x.end = context.WithCancel(l.ctx)
		lives[h] = x
	}
	l.lives = nil
	for _, h := range all {
		l.lives = append(l.lives, lives[h])
	}
	l.lanes = hook.LanesOf(all)
	l.o.Runner.Add(fresh)
	l.o.Health.Expect(all)
	l.measure()
	l.publish()
	if l.o.Changed != nil {
		l.o.Changed(all)
	}
}

// measure lets all hooks have metrics whose runs may still end.
func (l *Lifecycle) measure() {
	var hooks []*hook.Hook
	for _, lives := range [][]*life{l.lives, l.leaving} {
		for _, x := range lives {
			hooks = append(hooks, x.hook)
		}
	}
	l.o.Meter.SetHooks(hooks)
}

// Queue queues a task for an event. It may be called by any goroutine, also with locks held.
func (l *Lifecycle) Queue(ev event.Event) {
	if ev.Watch == event.Deleting { // no requeue may follow it: its success would drop a Deleting that is parked
		l.o.Pending.Cancel(&ev)
	}
	t, key := l.task(ev)
	l.o.Log.Info("queue task", "event.id", t.ID(), "hook", ev.Hook.Name, "binding", ev.Type.String(), "queue", t.Queue(), "name", "HookRun")
	l.o.Queues.Add(t.Queue(), key, t)
}

// LaneOf returns the queue and the key of the lane that an event gets now; the event has the key of its object.
func (l *Lifecycle) LaneOf(ev event.Event) (queue, key string) {
	lanes := l.view.Load().lanes[ev.Queue()]
	if lanes.Secret && ev.Key != "" {
		ev.Key = l.hash(ev.Key)
	}
	ev.Key = cmp.Or(l.o.Pending.Key(&ev), ev.Key)
	return ev.Queue(), ev.LaneKey(lanes)
}

// task returns the task of an event, and the key of its lane.
func (l *Lifecycle) task(ev event.Event) (t Task, key string) {
	if lanes, keyed := l.view.Load().lanes[ev.Queue()]; keyed {
		if lanes.Secret && ev.Key != "" {
			ev.Key, ev.KeyValue = l.hash(ev.Key), ev.Key
		}
		l.o.Pending.Enter(&ev)
		key = ev.LaneKey(lanes)
	}
	return Task{l.o.Runner.Task(ev)}, key
}

// hash is what a key from a Secret is shown as. It is another one in each process, and long enough for different keys to have different
// lanes.
func (l *Lifecycle) hash(key string) string {
	mac := hmac.New(sha256.New, l.hashKey[:])
	mac.Write([]byte(key))
	return "redacted-" + hex.EncodeToString(mac.Sum(nil)[:8])
}

// Tick queues a run for every enabled schedule with this crontab, in the order of hooks and bindings.
func (l *Lifecycle) Tick(crontab string) {
	v := l.view.Load()
	for _, h := range v.hooks {
		if v.states[h] != Ticking {
			continue
		}
		for i, s := range h.Schedules {
			if s.Crontab == crontab {
				l.Queue(event.Event{Type: event.Tick, Hook: h, Index: i})
			}
		}
	}
}
