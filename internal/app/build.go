package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/health"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
	"github.com/shell-operator/shell-operator/internal/telemetry/meter"
)

// queuedBytes is how much of the objects in waiting events stays in memory.
const queuedBytes = 32 << 20

// surroundings finds the cluster, and completes the environment of hooks by what leads them there and to their library.
func surroundings(o *Options, w *workspace.Workspace) (*kube.Cluster, error) {
	cl, err := kube.Connect(o.Cluster, w.Dir())
	if err != nil {
		return nil, err
	}
	library, err := hookset.UnpackLibrary(o.Env, filepath.Join(w.Dir(), "shell"))
	if err != nil {
		return nil, err
	}
	if err := w.Protect(); err != nil {
		return nil, fmt.Errorf("cannot read what has just been written: %w", err)
	}
	o.Env = slices.Concat(hookset.Inherited(o.Env, o.HookEnv), cl.Env, library)
	return cl, nil
}

// newOperator makes what needs neither the cluster nor hooks.
func newOperator(o Options, private string) (op *operator, err error) {
	op = &operator{
		log: o.Log, spool: event.NewSpool(private, queuedBytes, o.Log),
		startedUp: make(chan struct{}), leading: make(chan struct{}), lives: map[*hook.Hook]*life{},
	}
	op.health = health.New(op.missing)
	op.meter, err = meter.New(telemetry.MetricsOptions{Prefix: o.Metrics.Prefix, NoQueueActions: o.Metrics.NoQueueActions, Queues: op.tasks, HookSeries: op.hookSeries})
	if err != nil {
		return nil, err
	}
	op.queues = queue.NewSet(queue.Options{
		Backoff:   queue.DefaultBackoff(o.RetryMin, o.RetryMax),
		OnFailure: op.failed, OnPanic: op.panicked, OnAction: op.meter.OnAction,
	})
	return op, nil
}

// newEffects makes what carries out the wishes of hooks, with a client of its own.
func (op *operator) newEffects(cl *kube.Cluster, filters *jq.Compiler, o Options) (*apply.Effects, error) {
	client := o.Patches.Client(cl.Config)
	o.Election.fence(client)
	op.meter.Count(client, "object_patcher")
	with := apply.Options{Settings: o.Patches, Client: client, Filters: filters, RestartCounters: o.Metrics.RestartHookCounters, MaxSeries: o.Metrics.MaxHookSeries, Log: o.Log}
	if op.tracers != nil {
		with.Tracer = op.tracers.Operator
	}
	effects, err := apply.New(with)
	if err != nil {
		return nil, err
	}
	op.hookMetrics = effects.Metrics
	return effects, nil
}

// load asks the hooks for their configurations.
func (op *operator) load(ctx, kill context.Context, o Options, filters *jq.Compiler) (err error) {
	o.Log.Info("Initialize hooks manager. Search for and load all hooks.")
	op.reading = hookset.Options{
		Dir: o.HooksDir, Mounted: o.WatchHooks, Env: o.Env, Timeout: o.ConfigTimeout,
		Executor: process.New(process.Options{Kill: kill}), Filters: filters, Log: o.Log,
		SkipExistingV0: o.SkipExistingV0,
	}
	hooks, err := hookset.Load(ctx, op.reading)
	if err != nil {
		return err
	}
	op.meter.Bind(hooks)
	op.health.Expect(hooks)
	op.mu.Lock()
	defer op.mu.Unlock()
	op.hooks = hooks
	for _, h := range hooks {
		op.lives[h] = newLife(h)
	}
	return nil
}

// material is what stages are built of.
type material struct {
	cluster   *kube.Cluster
	workspace *workspace.Workspace
	filters   *jq.Compiler
	effects   *apply.Effects
	insight   *insight
}

// build makes the stages for the hooks that have been loaded.
func (op *operator) build(ctx, kill context.Context, o Options, m material) (err error) {
	op.watcher, err = watch.New(watch.Options{
		Config: m.cluster.Config, JQ: m.filters, Sink: sink{op}, Meter: op.meter, Log: o.Log, KeepManagedFields: o.KeepManagedFields,
		Standby: op.election != nil,
	})
	if err != nil {
		return err
	}
	op.clock = schedule.New(schedule.Options{Fire: op.tick, Log: o.Log})
	op.runner = run.New(op.all(), run.Options{
		Executor:  fenced{process.New(process.Options{TermDelay: o.ShutdownTimeout / 5, Kill: kill})},
		Snapshots: op.watcher, Effects: m.effects, Workspace: m.workspace, Log: o.Log, Env: o.Env,
		Timeout: o.HookTimeout, ContextsPerRun: o.ContextsPerRun, ProxyJSON: o.ProxyHookJSON,
		Observe: op.runEnded, Begin: m.insight.begin, Tracers: op.tracers, Texts: op.texts.forRuns(),
	})
	op.servers, err = webhook.New(ctx, webhook.Options{
		Cluster: m.cluster, Webhooks: o.Webhooks, HTTP: o.HTTP, Hooks: op.all(), Ready: op.health.Answering(), Leading: op.leading,
		Reviews: answers{op.runner}, Requests: answers{op.runner}, Meter: op.meter.Operator, Log: o.Log,
	})
	return err
}
