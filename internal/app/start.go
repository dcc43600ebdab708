package app

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// patience is how long the Synchronizations of later hooks wait for a hook that is neither enabled nor in
// trouble. It only matters for a first list that takes longer.
const patience = 10 * time.Second

// start brings the hooks to life, in this order:
//
//  1. all onStartup runs, by their number;
//  2. enabling of the kubernetes bindings of all hooks, at the same time: it is work for the API server;
//  3. hook by hook, its Synchronizations and then its schedules. A hook that cannot be enabled yet is
//     skipped and comes when it can.
//
// Where there may be several replicas, 2 comes first: a standby has its snapshots ready, and waits.
func (op *operator) start(ctx context.Context) {
	var enabling sync.WaitGroup
	defer enabling.Wait()
	all := make([]*enabler, len(op.hooks))
	enable := func() {
		for i, h := range op.hooks {
			all[i] = newEnabler(op, h)
			enabling.Go(func() { all[i].run(ctx) })
		}
	}
	standby := op.election != nil
	if standby {
		enable()
	}
	select {
	case <-op.leading:
	case <-ctx.Done():
		return
	}
	op.watcher.Lead()
	op.queueStartup()
	select {
	case <-op.startedUp:
	case <-ctx.Done():
		return
	}
	if !standby {
		enable()
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	late := false
	for _, e := range all {
		if !late {
			select {
			case <-e.ready:
			case <-e.stuck:
			case <-deadline.C:
				late = true
			case <-ctx.Done():
				return
			}
		}
		if e.isReady() {
			op.release(e.hook)
			continue
		}
		enabling.Go(func() {
			select {
			case <-e.ready:
				op.release(e.hook)
				op.queueTrim()
			case <-ctx.Done():
			}
		})
	}
	op.queueTrim()
}

// queueTrim gives memory back once the Synchronizations that are queued now are over. First lists leave many times
// their size in garbage, and an operator that is idle afterwards would keep it for minutes.
func (op *operator) queueTrim() {
	op.queues.Add(hook.MainQueue, step{"ReleaseMemory", debug.FreeOSMemory})
}

func (op *operator) queueStartup() {
	var starting []*hook.Hook
	for _, h := range op.hooks {
		if h.OnStartup != nil {
			starting = append(starting, h)
		}
	}
	slices.SortStableFunc(starting, func(a, b *hook.Hook) int { return *a.OnStartup - *b.OnStartup })
	for _, h := range starting {
		op.log.Info("queue task with hook", "operator.component", "initMainQueue", "hook", h.Name, "task", "HookRun")
		op.queues.Add(hook.MainQueue, op.task(event.Event{Type: event.Startup, Hook: h}))
		if answers(h) {
			op.queues.Add(hook.MainQueue, step{"Answer:" + h.Name, func() { op.health.started(h) }})
		}
	}
	op.queues.Add(hook.MainQueue, step{"StartUp", func() { close(op.startedUp) }})
	// Queues show up in dumps before their first task.
	for _, h := range op.hooks {
		for _, s := range h.Schedules {
			op.queues.Ensure(s.Queue)
		}
		for _, k := range h.Kubernetes {
			op.queues.Ensure(k.Queue)
		}
	}
}

// release queues what a hook gets once it is enabled.
func (op *operator) release(h *hook.Hook) {
	for i := range h.Kubernetes {
		if h.Kubernetes[i].Initial == hook.InitialEvents {
			op.queues.AddFirst(hook.MainQueue, step{"AnnounceObjects:" + h.Name, func() { op.watcher.Announce(h, i) }})
			continue
		}
		t := op.task(event.Event{Type: event.Synchronization, Hook: h, Index: i})
		op.queues.AddFirst(t.Queue(), t)
	}
	if len(h.Schedules) > 0 {
		op.queues.AddFirst(hook.MainQueue, step{"EnableScheduleBindings:::" + h.Name + ":EnableScheduleBindings", func() { op.enableSchedules(h) }})
	}
}

func (op *operator) enableSchedules(h *hook.Hook) {
	op.mu.Lock()
	op.ticking[h] = true
	op.mu.Unlock()
	for _, s := range h.Schedules {
		op.clock.Register(s.Crontab)
	}
	op.log.Info("Schedule binding for hook enabled successfully", "hook", h.Name, "binding", "schedule", "task", "EnableScheduleBindings", "queue", hook.MainQueue)
}

// enabler enables the kubernetes bindings of one hook.
type enabler struct {
	op   *operator
	hook *hook.Hook
	// ready is closed when all bindings are enabled, stuck when one is in trouble for the first time.
	ready, stuck chan struct{}
	once         sync.Once

	mu       sync.Mutex
	failures int
}

func newEnabler(op *operator, h *hook.Hook) *enabler {
	return &enabler{op: op, hook: h, ready: make(chan struct{}), stuck: make(chan struct{})}
}

func (e *enabler) isReady() bool {
	select {
	case <-e.ready:
		return true
	default:
		return false
	}
}

func (e *enabler) run(ctx context.Context) {
	if len(e.hook.Kubernetes) == 0 {
		close(e.ready)
		return
	}
	started := time.Now()
	ctx, endTrace := e.op.enablingStarts(ctx, e.hook)
	defer endTrace()
	log := e.op.log.With("hook", e.hook.Name, "binding", "", "task", "EnableKubernetesBindings", "queue", hook.MainQueue)
	log.Info("Enable kubernetes binding for hook")
	err := e.op.watcher.Enable(ctx, e.hook, func(index int, err error) {
		e.mu.Lock()
		e.failures++
		failures := e.failures
		e.mu.Unlock()
		// Whoever has read the log finds it in the pages.
		e.op.meter.operator.BindingsFailed(e.hook.Name)
		e.op.health.trouble(e.hook, err)
		log.Error("Enable Kubernetes binding for hook failed. Will retry after delay.",
			"failedCount", failures, "kubernetes", e.hook.Kubernetes[index].Name, "error", err.Error())
		e.once.Do(func() { close(e.stuck) })
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		// A filter that does not compile cannot get here: it is refused with the hook's configuration.
		log.Error("Enable Kubernetes binding for hook failed for good", "error", err.Error())
	default:
		log.Info("Kubernetes bindings for hook are enabled successfully", "count", len(e.hook.Kubernetes))
		e.op.meter.operator.BindingsEnabled(e.hook.Name, time.Since(started))
		e.op.health.enabled(e.hook)
		close(e.ready)
	}
}
