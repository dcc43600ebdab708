// Package app builds the operator out of its stages, connects them, and stops them in order. It is the only package that
// knows them all.
//
// Callers may rely on this:
//   - Run returns when everything that it has started has ended, within the shutdown timeout, or immediately when killed.
//   - Shutdown runs upstream first: sources, runs, telemetry. No stage blocks on one that has stopped.
package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/effect/applyset"
	record "github.com/shell-operator/shell-operator/internal/effect/finalizer"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/recording"
	"github.com/shell-operator/shell-operator/internal/run/traces"
	"github.com/shell-operator/shell-operator/internal/run/worker"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/finalizer"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
)

// ErrKilled is the error of a shutdown that killed hooks.
var ErrKilled = errors.New("hooks were still running when the shutdown timeout was over, they were killed: raise --shutdown-timeout, " +
	"or make the hooks shorter")

// operator is all stages together. Servers and life are set when the hooks have been loaded, before anything runs.
type operator struct {
	log     *slog.Logger
	queues  *queue.Set
	runner  *run.Runner
	pending *pending.Ledger
	watcher *watch.Watcher
	clock   *schedule.Clock
	spool   *event.Spool
	meter   *meter
	health  *lifecycle.Health
	insight *insight
	store   *hookset.Store
	// workers are the processes of hooks with settings.worker.
	workers *worker.Pool
	// recorder keeps the recordings of runs.
	recorder *recording.Recorder
	// effects apply what hooks return, and have their metrics.
	effects *apply.Effects
	servers *webhook.Servers
	life    *lifecycle.Lifecycle
	// gates add and remove finalizers, finalizers is their record. orphanSearch has a signal when the hooks have changed.
	gates        *finalizer.Finalizers
	finalizers   *record.Record
	orphanSearch chan struct{}
	// lostSets are the sets whose hook is gone.
	lostSets atomic.Pointer[[]applyset.Set]
	// searchProblem is why the last search for finalizers and sets without a hook failed; nil if it did not.
	searchProblem atomic.Pointer[string]
	// events publishes Events of hooks, and about them.
	events *kubeevent.Recorder
	// tracers are nil without an endpoint for traces.
	tracers *traces.Tracers
	// election is nil when there is no other replica. leading is closed when this one runs hooks.
	election *replica.Lease
	// once is closed when it does what is done once for all replicas: as the leader, or as the owner of shard 0.
	leading, once chan struct{}
	// leader is the holder of the Lease, as far as is known.
	leader atomic.Pointer[string]
	// rival serves a shard, so that this replica may not lead yet. Only leaderChanged has it.
	rival string
	// shards are this replica's share in the work.
	shards *shards
	// divided ends the operator when a reload has divided the work in another way. It is set before the hooks can change.
	divided context.CancelCauseFunc
}

// Run runs the operator until ctx ends, and then for at most the shutdown timeout.
// When kill ends, running hooks are killed immediately.
func Run(ctx, kill context.Context, o Options) (err error) {
	if o.Watchdog == nil {
		o.Watchdog = lifecycle.NewWatchdog(o.ShutdownTimeout, func(string) {})
	}
	o.Log.Info("start shell-operator")
	// A lost Lease ends hooks as a second signal does.
	kill, killNow := context.WithCancel(kill)
	defer killNow()
	dirs := workspace.Directories{
		Hooks: o.HooksDir, Tmp: o.TmpDir, Run: o.RunDir, Log: o.Log,
		InPod: slices.ContainsFunc(o.Env, func(v string) bool { return strings.HasPrefix(v, "KUBERNETES_SERVICE_HOST=") }),
	}
	if err := dirs.Check(); err != nil {
		return err
	}
	o.HooksDir, o.TmpDir, o.RunDir = dirs.Hooks, dirs.Tmp, dirs.Run
	var files *workspace.Workspace
	err = o.Watchdog.Step("opening the temp directory", func() (err error) {
		files, err = workspace.Open(workspace.Options{Dir: o.TmpDir, RunDir: o.RunDir, Keep: o.KeepTmpFiles, Homes: o.OwnHomes, Log: o.Log})
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	cl, err := surroundings(&o, files)
	if err != nil {
		return err
	}
	tracers, endTraces, err := newTracing(ctx, o)
	if err != nil {
		return err
	}
	defer endTraces()
	filters := jq.NewCompiler(jq.Options{LibraryPath: o.JQLibraryPath})
	op, err := newOperator(o, kill, cl, files, filters, tracers)
	if err != nil {
		return err
	}
	defer op.store.Close()
	defer func() { err = errors.Join(err, op.recorder.Close()) }()
	// The pages are there before the hooks, which may take long, and until everything else has ended.
	defer op.insight.logLevel.Close()
	var endDebug func()
	err = o.Watchdog.Step("opening the debug socket", func() (err error) { endDebug, err = op.insight.serve(o); return err })
	if err != nil {
		return err
	}
	defer endDebug()
	endPages, err := op.servePages(o)
	if err != nil {
		return err
	}
	defer endPages()
	if err := o.Watchdog.Step("loading hooks", func() error { return op.load(ctx, kill, cl, files, filters, o) }); err != nil {
		return err
	}
	var asides sync.WaitGroup
	defer asides.Wait()
	aside, end := context.WithCancel(ctx)
	defer end()
	op.insight.built()
	asides.Go(func() { op.finalizers.Run(aside) })
	if !o.Patches.DryRun {
		asides.Go(func() { op.sweepSets(aside) })
	}
	asides.Go(func() { op.findOrphans(aside) })
	return op.serve(ctx, kill, killNow, o.ShutdownTimeout, o.Watchdog)
}

// serve starts the stages, last one first, so that each finds the next one ready; and ends them the
// other way round.
func (op *operator) serve(ctx, kill context.Context, killNow func(), timeout time.Duration, dog *lifecycle.Watchdog) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	op.divided = fail
	// Runs outlive ctx: a hook that is running may finish.
	runs, endRuns := context.WithCancel(kill)
	defer endRuns()
	var background sync.WaitGroup
	// Both end with ctx and for no other reason.
	background.Go(dog.Stage("watches", func() { _ = op.watcher.Run(ctx) }))
	background.Go(func() { _ = op.clock.Run(ctx) })
	background.Go(dog.Stage("starting and reloading hooks", func() { op.life.Run(ctx) }))
	published := op.publish(dog)
	background.Go(func() { op.workers.Run(ctx) })
	background.Go(dog.Stage("webhook and HTTP servers", func() { op.servers.Run(ctx, fail) }))

	over := make(chan struct{})
	var ending sync.WaitGroup
	defer context.AfterFunc(ctx, dog.Start)() // also when the operator ends by itself
	ending.Go(func() { op.endRuns(ctx, over, timeout*4/5, endRuns, dog) })
	err := dog.Step("runs of hooks", func() error {
		return op.lead(ctx, runs, func(lost error) { fail(lost); killNow() })
	})
	close(over)
	ending.Wait()
	published()
	background.Wait()
	_ = dog.Step("workers of hooks", func() error { op.workers.Close(); return nil })
	var broken *webhook.Error
	switch {
	case errors.As(context.Cause(ctx), &broken):
		err = broken
	case err == nil && runs.Err() != nil:
		err = ErrKilled
	}
	op.log.Info("shutdown done", "phase", "shutdown")
	return err
}

// lastEvents is the time for Events of the last runs.
const lastEvents = time.Second

// publish publishes Events until the function that it returns is called, after the last run.
func (op *operator) publish(dog *lifecycle.Watchdog) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(dog.Stage("Kubernetes Events", func() {
		op.events.Run(ctx)
		last, cancel := context.WithTimeout(context.Background(), lastEvents)
		defer cancel()
		op.events.Flush(last)
	}))
	return func() { stop(); running.Wait() }
}

// endRuns waits for ctx to end, gives running hooks a while, and then ends them, unless all is over earlier.
func (op *operator) endRuns(ctx context.Context, over <-chan struct{}, grace time.Duration, end func(), dog *lifecycle.Watchdog) {
	select {
	case <-ctx.Done():
	case <-over:
		if ctx.Err() == nil {
			return // the operator ends by itself
		}
	}
	dog.Stage("writing the log", func() { op.log.Info("shutdown begin", "phase", "shutdown") })()
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		op.log.Warn("Hooks are still running, they get SIGTERM and then SIGKILL", "phase", "shutdown")
		end()
	}
}
