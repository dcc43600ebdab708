package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
)

// slowList is how long the Synchronizations of later hooks wait for a hook whose bindings are neither enabled nor in trouble.
// It only matters for an initial list that takes longer.
const slowList = 10 * time.Second

// advance does what can be done now to start hooks, in this order:
//
//  1. the onStartup runs, by their number;
//  2. when all of the first set have succeeded, enabling of kubernetes bindings, concurrently;
//  3. hook by hook, its Synchronizations and then its schedules.
//
// With a standby 2 comes first: it has its snapshots when it becomes the leader, or owns its shard. A hook that is added later does not
// wait for the onStartup runs of others. A hook that runs on another shard gets as far as 2.
func (l *Lifecycle) advance() {
	if l.o.Standby {
		for _, x := range l.lives {
			if l.previous(x) == nil {
				l.enable(x)
			}
		}
	}
	if !l.leads {
		return
	}
	l.queueStartups()
	l.startupDone = l.startupDone || !slices.ContainsFunc(l.lives, func(x *life) bool { return l.runs(x) && x.state < Started })
	if !l.startupDone {
		return
	}
	for _, x := range l.lives {
		if x.state == Started || x.state == Paused {
			l.enable(x)
		}
		if x.state == Started && x.listed {
			l.finalize(x)
		}
		if x.state == Started && x.finalized {
			l.step(x, Enabled)
		}
	}
	l.release()
}

// previous returns a version of the hook that has not ended its runs, or nil.
func (l *Lifecycle) previous(x *life) *life {
	for _, old := range l.leaving {
		if old.hook.Name == x.hook.Name && old.running {
			return old
		}
	}
	return nil
}

func (l *Lifecycle) queueStartups() {
	var starting []*life
	for _, x := range l.lives {
		switch {
		case x.state != Loaded || x.running || l.previous(x) != nil:
		case !l.runs(x):
			l.o.Health.Started(x.hook) // shard 0 has prepared what is needed
		default:
			l.restart(x)
			if x.hook.OnStartup == nil {
				l.step(x, Started)
				break
			}
			l.step(x, StartupQueued)
			starting = append(starting, x)
		}
	}
	slices.SortStableFunc(starting, func(a, b *life) int { return *a.hook.OnStartup - *b.hook.OnStartup })
	for _, x := range starting {
		ctx := x.ctx
		l.o.Log.Info("queue task with hook", "operator.component", "initMainQueue", "hook", x.hook.Name, "task", "HookRun")
		l.o.Queues.Add(hook.MainQueue, "", Task{l.o.Runner.Task(event.Event{Type: event.Startup, Hook: x.hook})})
		l.o.Queues.Add(hook.MainQueue, "", &stepTask{"Started:" + x.hook.Name, x.hook, func() {
			l.o.Health.Started(x.hook)
			l.post(ctx, func() { l.step(x, Started) })
		}})
	}
}

// keepQueues keeps the queues that hooks name: they show up in dumps before their first task.
func (l *Lifecycle) keepQueues() {
	shapes := map[string]queue.Shape{hook.MainQueue: {}}
	for _, x := range l.lives {
		for _, b := range x.hook.Bindings() {
			if b.Queue != "" {
				lanes := l.lanes[b.Queue]
				shapes[b.Queue] = queue.Shape{Keyed: lanes.Keyed(), Concurrency: lanes.Concurrency}
			}
		}
	}
	l.o.Queues.Keep(shapes)
}

// enable lists and watches for the kubernetes bindings of a hook, once.
func (l *Lifecycle) enable(x *life) {
	if x.enabling || x.listed || x.failed || x.state == Paused && !serves(x.hook) {
		return
	}
	n := l.needed(x)
	if n == 0 {
		if x.listed = true; len(x.hook.Kubernetes) > 0 {
			l.o.Health.Enabled(x.hook)
		}
		return
	}
	x.enabling = true
	enabledFor, ctx := l.shard, x.ctx
	slow := time.AfterFunc(slowList, func() { l.pass(x) })
	l.work.Go(func() {
		ok := l.enableBindings(ctx, x, n)
		slow.Stop()
		// The end of the operator may come first, but the end of the hook does not matter: it has to be known that this has ended.
		l.post(l.ctx, func() {
			x.enabling, x.failed = false, !ok && ctx.Err() == nil
			x.listed = ok && x.ctx == ctx && (l.shard == enabledFor || !l.runs(x)) // or the shard was taken meanwhile
			if x.state == Paused {
				l.o.Watcher.Mute(x.hook)
			}
			l.settle(x)
		})
	})
}

// finalize adds the finalizers of a hook's bindings to their objects, once. Later hooks do not wait for the requests.
func (l *Lifecycle) finalize(x *life) {
	switch {
	case x.enabling || x.finalized:
		return
	case !slices.ContainsFunc(x.hook.Kubernetes, func(k hook.Kubernetes) bool { return k.Finalizer != "" }):
		x.finalized = true
		return
	}
	x.enabling = true
	x.passed.Store(true)
	ctx := x.ctx
	l.work.Go(func() {
		err := l.o.Watcher.Finalize(ctx, x.hook, func(index int, err error) {
			l.o.Meter.BindingsFailed(x.hook.Name)
			l.o.Log.Error("Cannot add the finalizer of the binding. Will retry after delay.", "hook", x.hook.Name,
				"binding", x.hook.Kubernetes[index].Name, "error", err.Error())
		})
		l.post(l.ctx, func() {
			x.enabling, x.finalized = false, err == nil && x.ctx == ctx
			l.settle(x)
		})
	})
}

// pass releases later hooks that wait for this one. It does not block: the Watcher calls it with locks held.
func (l *Lifecycle) pass(x *life) {
	x.passed.Store(true)
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// needed is the number of kubernetes bindings that this replica needs: runs of the hook need all, requests those that they include.
func (l *Lifecycle) needed(x *life) (n int) {
	for i := range x.hook.Kubernetes {
		if l.runs(x) || x.hook.Answering(i) {
			n++
		}
	}
	return n
}

// enableBindings enables the bindings of a hook, n of which this replica needs.
func (l *Lifecycle) enableBindings(ctx context.Context, x *life, n int) bool {
	h, started := x.hook, time.Now()
	ctx, endTrace := l.o.Trace(ctx, h)
	defer endTrace()
	log := l.o.Log.With("hook", h.Name, "binding", "", "task", "EnableKubernetesBindings", "queue", hook.MainQueue)
	log.Info("Enable kubernetes binding for hook")
	var failures atomic.Int32
	err := l.o.Watcher.Enable(ctx, h, func(index int, err error) {
		cause := (missing)(nil)
		if err == nil || errors.As(err, &cause) {
			l.o.Health.Answerable(h, index)
		}
		switch {
		case err == nil:
			return
		case h.Kubernetes[index].Optional && cause != nil && cause.Missing():
			l.pass(x)
			return
		}
		l.o.Meter.BindingsFailed(h.Name)
		log.Error("Enable Kubernetes binding for hook failed. Will retry after delay.",
			"failedCount", failures.Add(1), "kubernetes", h.Kubernetes[index].Name, "error", err.Error())
		l.pass(x)
	})
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		// A filter that does not compile cannot get here: it is rejected with the hook's configuration.
		log.Error("Enable Kubernetes binding for hook failed for good", "error", err.Error())
		l.pass(x)
		return false
	}
	// Pages show what the log says, so they come first.
	l.o.Meter.BindingsEnabled(h.Name, time.Since(started))
	l.o.Health.Enabled(h)
	log.Info("Kubernetes bindings for hook are enabled successfully", "count", n)
	return true
}

// release queues what hooks get once they are enabled. A hook whose bindings are in trouble or slow is passed over.
func (l *Lifecycle) release() {
	synchronizations := false
	for _, x := range l.lives {
		if x.state == Started && !x.passed.Load() {
			break
		}
		if x.state != Enabled {
			continue
		}
		synchronizations = synchronizations || len(x.hook.Kubernetes) > 0
		l.step(x, Released)
		l.queueTasks(x)
	}
	if synchronizations {
		// Initial lists leave many times their size in garbage, and an idle operator would keep it for minutes. Saves 5 MiB
		// with 2,000 ConfigMaps of 2.5 KiB.
		l.o.Queues.Add(hook.MainQueue, "", &stepTask{"ReleaseMemory", nil, releaseMemory})
	}
}

func (l *Lifecycle) queueTasks(x *life) {
	h := x.hook
	for i := range h.Kubernetes {
		l.queueInitial(h, i)
	}
	if len(h.Schedules) > 0 {
		ctx := x.ctx
		name := "EnableScheduleBindings:::" + h.Name + ":EnableScheduleBindings"
		l.o.Queues.AddFirst(hook.MainQueue, "", &stepTask{name, h, func() { l.post(ctx, func() { l.enableSchedules(x) }) }})
	}
}

func (l *Lifecycle) queueInitial(h *hook.Hook, i int) {
	switch k := &h.Kubernetes[i]; {
	case k.Initial == hook.InitialEvents && !k.WaitForSynchronization:
		l.work.Go(func() { l.o.Objects.Announce(h, i) }) // it can write many objects to the disk
	case k.Initial == hook.InitialEvents:
		l.o.Queues.AddFirst(hook.MainQueue, "", &stepTask{"AnnounceObjects:" + h.Name, h, func() { l.o.Objects.Announce(h, i) }})
	default:
		t, key := l.task(event.Event{Type: event.Synchronization, Hook: h, Index: i})
		l.o.Queues.AddFirst(t.Queue(), key, t)
	}
}

func (l *Lifecycle) enableSchedules(x *life) {
	if !l.step(x, Ticking) {
		return
	}
	l.publish() // before a schedule fires
	for _, s := range x.hook.Schedules {
		l.o.Clock.Register(s.Crontab)
	}
	l.o.Log.Info("Schedule binding for hook enabled successfully", "hook", x.hook.Name, "binding", "schedule", "task",
		"EnableScheduleBindings", "queue", hook.MainQueue)
}
