// Package app builds the operator out of its stages, runs it, and stops it in order. It is the only package that knows
// them all.
//
// Callers may rely on this:
//   - Run returns when everything that it has started has ended, within the shutdown timeout or at once when told so.
//   - Stages end in the order in which nobody waits for one that has gone: sources, then runs, then what tells of them.
//   - Hooks come to life in one order, whenever they come; those that are replaced lose no event.
package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/health"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/replica"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
	"github.com/shell-operator/shell-operator/internal/telemetry/meter"
)

// ErrKilled tells that hooks had to be killed at shutdown.
var ErrKilled = errors.New("hooks were still running when the shutdown timeout was over, they were killed: raise --shutdown-timeout, or make the hooks shorter")

// operator is everything together.
type operator struct {
	log     *slog.Logger
	queues  *queue.Set
	runner  *run.Runner
	watcher *watch.Watcher
	clock   *schedule.Clock
	spool   *event.Spool
	meter   *meter.Meter
	health  *health.Health
	// hookMetrics are those that hooks hand back.
	hookMetrics *metric.Store
	// servers are where hooks are asked.
	servers *webhook.Servers
	// events is nil when there is no Pod that Events could be about.
	events *kubeevent.Recorder
	// tracers are nil when nobody wants traces.
	tracers *run.Tracers
	// election is nil when there is no other replica. leading is closed when this one runs hooks.
	election *replica.Lease
	leading  chan struct{}
	// startedUp is closed when all onStartup runs have succeeded.
	startedUp chan struct{}
	once      sync.Once
	// reading loads the hooks anew.
	reading hookset.Options
	// texts are nil when nobody follows the files of hooks.
	texts *texts
	// ballast makes the garbage collector wait; nil if there is none.
	ballast *ballast

	mu sync.Mutex
	// hooks are replaced, never changed, so a copy of the slice header may be used without the lock.
	hooks []*hook.Hook
	lives map[*hook.Hook]*life
	// leader is who holds the Lease, as far as is known.
	leader string
}

// Run runs the operator until ctx ends, and then for at most the shutdown timeout.
// When kill ends, running hooks are killed at once.
func Run(ctx, kill context.Context, o Options) (err error) {
	o.Log.Info("start shell-operator")
	// A lost Lease ends hooks as a second signal does.
	kill, killNow := context.WithCancel(kill)
	defer killNow()
	if err := checkDirectories(&o); err != nil {
		return err
	}
	files, err := workspace.Open(workspace.Options{Dir: o.TmpDir, RunDir: o.RunDir, Keep: o.KeepTmpFiles, Log: o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	cl, err := surroundings(&o, files)
	if err != nil {
		return err
	}
	op, err := newOperator(o, files.Dir())
	if err != nil {
		return err
	}
	var endTraces func()
	if op.tracers, endTraces, err = newTracing(ctx, o); err != nil {
		return err
	}
	defer endTraces()
	filters := jq.NewCompiler(jq.Options{LibraryPath: o.JQLibraryPath})
	effects, err := op.newEffects(cl, filters, o)
	if err != nil {
		return err
	}
	op.meter.Count(cl.Config, "main") // not earlier: what is counted is counted in copies, too
	if op.election, err = newElection(op, cl, o); err != nil {
		return err
	}
	if op.events, err = newKubeEvents(cl, o); err != nil {
		return err
	}
	// The pages are there before the hooks, which may take long, and until everything else has ended.
	insight := newInsight(op, o)
	defer insight.close()
	endDebug, err := insight.serve(o)
	if err != nil {
		return err
	}
	defer endDebug()
	endPages, err := op.servePages(o, insight)
	if err != nil {
		return err
	}
	defer endPages()

	// What changes while the hooks are asked is noticed afterwards.
	asFound := hookset.Look(o.HooksDir)
	if err := op.load(ctx, kill, o, filters); err != nil {
		return err
	}
	if op.texts = newTexts(o, files.Dir()); op.texts != nil {
		text, _ := op.texts.copied(asFound) // if it is not complete, the hooks are loaded anew at once
		op.texts.kept.Use(text)
	}
	if err := op.build(ctx, kill, o, material{cl, files, filters, effects, insight}); err != nil {
		return err
	}
	var asides sync.WaitGroup
	defer asides.Wait()
	aside, end := context.WithCancel(ctx)
	defer end()
	asides.Go(func() { warnOfReplicas(aside, cl, o) })
	insight.built()
	return op.serve(ctx, kill, killNow, o.ShutdownTimeout, asFound)
}

// serve starts the stages, last one first, so that each finds the next one ready; and ends them the
// other way round.
func (op *operator) serve(ctx, kill context.Context, killNow func(), timeout time.Duration, asFound hookset.Files) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	// Runs outlive ctx: a hook that is running may finish.
	runs, endRuns := context.WithCancel(kill)
	defer endRuns()
	var background sync.WaitGroup
	// Both end with ctx and for no other reason.
	background.Go(func() { _ = op.watcher.Run(ctx) })
	background.Go(func() { _ = op.clock.Run(ctx) })
	background.Go(func() { op.live(ctx, asFound) })
	if op.events != nil {
		background.Go(func() { op.events.Run(ctx) })
	}
	background.Go(func() { op.servers.Run(ctx, fail) })

	over := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() { op.endRuns(ctx, over, timeout*4/5, endRuns) })
	err := op.lead(ctx, runs, func(lost error) { fail(lost); killNow() })
	close(over)
	ending.Wait()
	background.Wait()
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

// endRuns waits for ctx to end, gives running hooks a while, and then ends them, unless all is over earlier.
func (op *operator) endRuns(ctx context.Context, over <-chan struct{}, grace time.Duration, end func()) {
	select {
	case <-ctx.Done():
	case <-over:
		return
	}
	op.log.Info("shutdown begin", "phase", "shutdown")
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		op.log.Warn("Hooks are still running, they get SIGTERM and then SIGKILL", "phase", "shutdown")
		end()
	}
}
