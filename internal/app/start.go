package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// patience is how long the Synchronizations of later hooks wait for a hook that is neither enabled nor in
// trouble. It only matters for a first list that takes longer.
const patience = 10 * time.Second

// bring brings the hooks to life, in this order:
//
//  1. all onStartup runs, by their number;
//  2. enabling of the kubernetes bindings of all hooks, at the same time: it is work for the API server;
//  3. hook by hook, its Synchronizations and then its schedules. A hook that cannot be enabled yet is
//     skipped and comes when it can.
//
// Where there may be several replicas, 2 comes first: a standby has its snapshots ready, and waits.
//
// It can be ended and called again, with other hooks: what has been done for a hook is not done twice. Hooks that come
// later do not wait for the onStartup runs of others.
func (op *operator) bring(ctx context.Context) {
	var enabling sync.WaitGroup
	defer enabling.Wait()
	hooks := op.all()
	all := make([]*enabler, len(hooks))
	for i, h := range hooks {
		all[i] = newEnabler(op, h)
	}
	standby := op.election != nil
	if standby {
		for _, e := range all {
			enabling.Go(func() { e.run(ctx) })
		}
	}
	if !reached(ctx, op.leading) {
		return
	}
	op.watcher.Lead()
	op.queueStartup(hooks)
	if !reached(ctx, op.startedUp) {
		return
	}
	if !standby {
		for _, e := range all {
			enabling.Go(func() {
				if reached(ctx, op.started(e.hook)) {
					e.run(ctx)
				}
			})
		}
	}
	op.ballast = newBallast()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	late, released := false, false
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
			released = op.release(e.hook) || released
			continue
		}
		enabling.Go(func() {
			if reached(ctx, e.ready) && op.release(e.hook) {
				op.queueTrim()
			}
		})
	}
	if released {
		op.queueTrim()
	} else {
		op.ballast.listsRead()
	}
}

// started is closed when the onStartup run of a hook has succeeded.
func (op *operator) started(h *hook.Hook) (c <-chan struct{}) {
	op.with(h, func(l *life) { c = l.started })
	return c
}

func (op *operator) queueStartup(hooks []*hook.Hook) {
	var starting []*hook.Hook
	for _, h := range hooks {
		op.with(h, func(l *life) {
			if h.OnStartup != nil && !l.startup {
				l.startup = true
				starting = append(starting, h)
			}
		})
	}
	slices.SortStableFunc(starting, func(a, b *hook.Hook) int { return *a.OnStartup - *b.OnStartup })
	for _, h := range starting {
		op.log.Info("queue task with hook", "operator.component", "initMainQueue", "hook", h.Name, "task", "HookRun")
		op.queues.Add(hook.MainQueue, op.task(event.Event{Type: event.Startup, Hook: h}))
		op.queues.Add(hook.MainQueue, &hookStep{"Started:" + h.Name, h, -1, func(h *hook.Hook, _ int) {
			op.with(h, func(l *life) {
				if h.OnStartup != nil { // else it has none any more, and nobody waits
					close(l.started)
				}
			})
			op.health.Started(h)
		}})
	}
	select {
	case <-op.startedUp:
	default:
		op.queues.Add(hook.MainQueue, step{"StartUp", func() { op.once.Do(func() { close(op.startedUp) }) }})
	}
	op.queues.Keep(queuesOf(hooks))
}

// queuesOf are the queues that hooks name. They show up in dumps before their first task; others end when they are empty.
func queuesOf(hooks []*hook.Hook) map[string]bool {
	names := map[string]bool{hook.MainQueue: true}
	for _, h := range hooks {
		for _, s := range h.Schedules {
			names[s.Queue] = true
		}
		for _, k := range h.Kubernetes {
			names[k.Queue] = true
		}
	}
	return names
}

// release queues what a hook gets once it is enabled, and tells whether there was anything.
func (op *operator) release(h *hook.Hook) (any bool) {
	var fresh []int
	schedule := false
	op.with(h, func(l *life) {
		for i, released := range l.released {
			if !released {
				l.released[i] = true
				fresh = append(fresh, i)
			}
		}
		schedule = len(h.Schedules) > 0 && !l.scheduled
		l.scheduled = l.scheduled || schedule
	})
	for _, i := range fresh {
		if h.Kubernetes[i].Initial == hook.InitialEvents {
			op.queues.AddFirst(hook.MainQueue, &hookStep{"AnnounceObjects:" + h.Name, h, i, op.watcher.Announce})
			continue
		}
		t := op.task(event.Event{Type: event.Synchronization, Hook: h, Index: i})
		op.queues.AddFirst(t.Queue(), t)
	}
	if schedule {
		name := "EnableScheduleBindings:::" + h.Name + ":EnableScheduleBindings"
		op.queues.AddFirst(hook.MainQueue, &hookStep{name, h, -1, func(h *hook.Hook, _ int) { op.enableSchedules(h) }})
	}
	return len(fresh) > 0 || schedule
}

func (op *operator) enableSchedules(h *hook.Hook) {
	op.with(h, func(l *life) { l.ticking = true })
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
	enabled := len(e.hook.Kubernetes) == 0
	e.op.with(e.hook, func(l *life) { enabled = enabled || l.enabled })
	if enabled {
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
		e.op.meter.Operator.BindingsFailed(e.hook.Name)
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
		e.op.meter.Operator.BindingsEnabled(e.hook.Name, time.Since(started))
		e.op.health.Enabled(e.hook)
		e.op.with(e.hook, func(l *life) { l.enabled = true })
		// Whoever has read the log is answered.
		log.Info("Kubernetes bindings for hook are enabled successfully", "count", len(e.hook.Kubernetes))
		close(e.ready)
	}
}

// reached waits for a channel to be closed, and tells whether that came before the end of ctx.
func reached(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}
