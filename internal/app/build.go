package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/httpserver"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/run/ownwrites"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/traces"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/finalizer"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// queuedBytes bounds the objects of waiting events in memory.
const queuedBytes = 32 << 20

// surroundings finds the cluster, and completes the environment of hooks by what leads them there and to their libraries.
func surroundings(o *Options, w *workspace.Workspace) (*kube.Cluster, error) {
	cl, err := kube.Connect(o.Cluster, w.Dir())
	if err != nil {
		return nil, err
	}
	own := slices.Clone(cl.Env)
	if o.OwnHomes {
		// A kubeconfig in the operator's home is not in the homes of hooks.
		if !cl.Inside && !has(own, "KUBECONFIG") && !has(o.Env, "KUBECONFIG") {
			own = append(own, "KUBECONFIG="+kube.DefaultKubeconfig())
		}
		o.Env = slices.DeleteFunc(slices.Clone(o.Env), func(kv string) bool { return strings.HasPrefix(kv, "HOME=") })
	}
	env, err := hookset.WithLibraries(hookset.Inherited(o.Env, o.HookEnv), w.Dir())
	if err != nil {
		return nil, err
	}
	if err := w.Protect(); err != nil {
		return nil, fmt.Errorf("cannot read what has just been written: %w", err)
	}
	o.Env = slices.Concat(env, own)
	return cl, nil
}

// has reports whether an environment has a variable that is not empty.
func has(env []string, name string) bool {
	return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") && len(kv) > len(name)+1 })
}

// newOperator makes all stages that need no hooks.
func newOperator(o Options, kill context.Context, cl *kube.Cluster, files *workspace.Workspace, filters *jq.Compiler,
	tracers *traces.Tracers) (op *operator, err error) {
	op = &operator{
		log: o.Log, spool: event.NewSpool(files.Dir(), queuedBytes, o.SpoolLimit, o.Log), leading: make(chan struct{}), once: make(chan struct{}),
		tracers:      tracers,
		orphanSearch: make(chan struct{}, 1),
	}
	op.health = lifecycle.NewHealth(op.missing)
	op.shards = newShards(o.Election.Shards, op.health, o.Log)
	op.meter, err = newMeter(telemetry.MetricsOptions{Prefix: o.Metrics.Prefix, NoQueueActions: o.Metrics.NoQueueActions})
	if err != nil {
		return nil, err
	}
	op.queues = queue.NewSet(queue.Options{
		Backoff:    queue.DefaultBackoff(o.RetryMin, o.RetryMax),
		MaxRuns:    o.MaxRuns,
		Coalescing: queue.DefaultCoalescing,
		OnFailure:  op.failed, OnExhausted: op.exhausted, OnPanic: op.panicked, OnAction: op.meter.QueueAction, OnEnd: op.meter.ForgetQueue,
	})
	if op.events, err = op.newKubeEvents(cl, o); err != nil {
		return nil, err
	}
	if op.effects, err = op.newEffects(cl, filters, o); err != nil {
		return nil, err
	}
	op.meter.Count(cl.Config, "main") // not earlier: what is counted is counted in copies, too
	if op.election, err = newElection(op, cl, o); err != nil {
		return nil, err
	}
	gates, err := op.newFinalizers(cl, o)
	if err != nil {
		return nil, err
	}
	watching := watch.Options{
		Config: cl.Config, JQ: filters, Sink: sink{op, op.meter}, Meter: op.meter, Log: o.Log,
		KeepManagedFields: o.KeepManagedFields, Shards: o.Election.Shards, Standby: op.election != nil, Listing: op.health.Listing,
	}
	if !o.Patches.DryRun {
		watching.Guard = gates.Gate
	}
	if op.watcher, err = watch.New(watching); err != nil {
		return nil, err
	}
	op.gates = finalizer.New(gates, op.watcher)
	op.clock = schedule.New(schedule.Options{Fire: func(crontab string, _ time.Time) { op.life.Tick(crontab) }, Log: o.Log})
	copies := ""
	if o.WatchHooks {
		copies = files.Dir()
	}
	op.store = hookset.NewStore(hookset.StoreOptions{Dir: copies, Log: o.Log})
	op.recorder, err = recording.New(recording.Options{
		Dir: filepath.Join(files.Dir(), "recordings"), Default: o.Record,
		Filters: filters, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	op.insight = newInsight(op, cl, o)
	op.newRunner(o, kill, files)
	return op, nil
}

// newRunner makes the Runner of hooks, with its companions.
func (op *operator) newRunner(o Options, kill context.Context, files *workspace.Workspace) {
	op.workers = worker.New(worker.Options{
		Executor: process.New(process.Options{TermDelay: o.ShutdownTimeout / 5, Kill: kill}), ReadyTimeout: o.ConfigTimeout,
		Check: replica.Check, ProxyJSON: o.ProxyHookJSON, Log: o.Log, Meter: op.meter,
		Prepare: func(in process.Invocation) error { _, err := files.Prepare(in.Hook); return err },
	})
	var workers run.Workers
	if o.Workers {
		workers = op.workers
	}
	executor := run.Executor(op.workers)
	if o.Election.replicas() {
		executor = fenced{executor}
	}
	op.pending = pending.New(pending.Options{Limit: o.MaxParked, Dropped: op.dropped, Full: op.spool.Full, Replaced: op.replaced,
		Objects: op.watcher, Finalizers: op.gates})
	op.runner = run.New(run.Options{
		Executor: op.traced(executor), Workers: workers, Snapshots: op.watcher, Effects: op.effects, Workspace: files, Log: o.Log,
		Env: o.environment(), Files: op.store, Timeout: o.HookTimeout, ProxyJSON: o.ProxyHookJSON,
		Retry: run.Retry{Min: o.RetryMin, Max: o.RetryMax}, Deferred: op.pending, MaxContextBytes: bytesPerRun, Companions: op.companions(),
	})
}

// environment returns the environments of hooks, by the kubectl that they ask for.
func (o *Options) environment() func(h *hook.Hook) []string {
	all, err := kubectl.Environments(o.Env, o.Kubectl, kubectl.Dirs()...)
	switch {
	case err == nil || o.Kubectl != kubectl.Auto:
	case errors.Is(err, kubectl.ErrAbsent):
		o.Log.Debug("Hooks call the complete kubectl", "reason", err.Error())
	default:
		o.Log.Info("Hooks call the complete kubectl", "reason", err.Error())
	}
	return func(h *hook.Hook) []string {
		if env, found := all[h.Settings.Kubectl]; found {
			return env
		}
		return o.Env
	}
}

// companions returns the companions of runs. Their order is the safety argument:
//   - When a run begins, it knows its wait for own writes and its trace before the history and the log have it.
//   - Conditions are the only ones that send requests that may fail the run; recordings contain that, and read the files of the run, which
//     are removed next. Then the outcome is final.
//   - The history and the metrics receive each outcome first, whatever follows.
//   - Finalizers are last, so that a run that one of the others fails releases none. Bindings are unlocked and lanes left after all.
func (op *operator) companions() []run.Companion {
	list := []run.Companion{
		ownwrites.New(op.watcher, op.meter.WritesLate, op.log),
		chronicle{insight: op.insight},
		&run.Conditions{Follow: op.watcher.Follow, Change: func(ctx context.Context, log *slog.Logger, r run.Reporting) error {
			_, err := op.effects.Change(ctx, log, apply.Run{Hook: r.Hook, Identify: r.Identify, Follow: r.Follow}, r.Patches, nil)
			return err
		}},
		op.recorder,
		op.shards,
	}
	list = append(list, op.pending.Companions()...)
	if op.tracers != nil {
		list = slices.Insert(list, 1, run.Companion(op.tracers))
	}
	return list
}

// bytesPerRun limits the context file of a run with several contexts: a single context may be larger. hookSeriesBytes is what the
// metric series of a hook may take in memory.
const (
	bytesPerRun     = 32 << 20
	hookSeriesBytes = 64 << 20
)

// newEffects makes what applies the outputs of hooks, with a client of its own.
func (op *operator) newEffects(cl *kube.Cluster, filters *jq.Compiler, o Options) (*apply.Effects, error) {
	client := o.Patches.Client(cl.Config)
	o.Election.fence(client)
	op.meter.Count(client, "object_patcher")
	with := apply.Options{Settings: o.Patches, Instance: cl.Instance(o.Installation), Version: o.Version, Events: op.events, Client: client,
		Filters: filters, RestartCounters: o.Metrics.RestartHookCounters, MaxBytes: hookSeriesBytes,
		Warned: op.meter.Warned, Log: o.Log}
	with.Namespace, _ = cl.OwnNamespace(o.Installation.Namespace) // without one, Sync returns an error
	with.Restores = apply.Restores{Watch: cl.Config, Active: op.active, Differs: op.meter.MemberDiffers}
	if o.Election.Shards > 0 {
		with.Shard = op.shards.Shard
	}
	if op.tracers != nil {
		with.Tracer = op.tracers.Operator
	}
	return apply.New(with)
}

// active reports whether a hook is loaded, and neither it nor one of its queues is paused.
func (op *operator) active(name string) bool {
	paused := op.queues.PausedQueues()
	for _, h := range op.life.Hooks() {
		if h.Name != name {
			continue
		}
		for _, b := range h.Bindings() {
			if slices.Contains(paused, b.Queue) {
				return false
			}
		}
		return op.life.State(h) != lifecycle.Paused
	}
	return false
}

// load loads the first hooks, and makes what needs them.
func (op *operator) load(ctx, kill context.Context, cl *kube.Cluster, files *workspace.Workspace, filters *jq.Compiler, o Options) error {
	o.Log.Info("Initialize hooks manager. Search for and load all hooks.")
	loading := hookset.Options{
		Dir: o.HooksDir, Mounted: o.WatchHooks, Env: o.Env, Timeout: o.ConfigTimeout,
		Executor: process.New(process.Options{Kill: kill}), Filters: filters, Log: o.Log,
		SkipExistingV0: o.SkipExistingV0, ContextsPerRun: o.ContextsPerRun, Prepare: files.Prepare,
		Rejected: op.runner.Rejected,
		Shards:   o.Election.Shards,
	}
	addresses := []string{o.HTTP.ListenAddress}
	if !o.Webhooks.NoRegistration {
		addresses = append(addresses, o.Webhooks.Admission.ListenAddress, o.Webhooks.Conversion.ListenAddress)
	}
	ports := httpserver.Bind(addresses...)
	defer ports.Close() // of those that no hook needs
	first, err := op.store.Load(ctx, loading)
	if err != nil {
		return err
	}
	op.life = lifecycle.New(lifecycle.Options{
		Queues: op.queues, Runner: op.runner, Pending: op.pending, Watcher: bindings{op.watcher, op.gates},
		Objects: bindings{op.watcher, op.gates},
		Clock:   op.clock, Meter: hookMeter{op.meter, op},
		Health: op.health, Log: o.Log,
		Store: op.store, Load: loading, Watch: o.WatchHooks, Reloaded: o.Reloaded, Leading: op.leading,
		Standby: op.election != nil, Taken: op.shards.taken, Shard: op.shards.Shard, Trace: op.enablingStarts,
		Exhausted: op.gaveUp,
		Changed: func(active []*hook.Hook) {
			op.hooksChanged(active)
			op.insight.history.ForgetReviews()
			op.redivided(active)
		},
		Prepare: func(ctx context.Context, hooks []*hook.Hook) (lifecycle.Renewal, error) {
			return op.servers.Prepare(ctx, hooks)
		},
	}, first)
	op.servers, err = webhook.New(ctx, webhook.Options{
		Cluster: cl, Webhooks: o.Webhooks, HTTP: o.HTTP, Ports: ports, Hooks: first.Hooks,
		Ready: op.health.Answers, Stuck: op.health.Stuck, ReadyChanged: op.health.Changed, Converted: op.watcher.Rewatch,
		Leading: op.once,
		Reviews: apply.Responder{Runner: op.runner}, Requests: apply.Responder{Runner: op.runner},
		Meter: op.meter, Log: o.Log,
	})
	return err
}
