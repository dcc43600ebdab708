// Package app builds the operator out of its stages, runs it, and stops it in order.
// It is the only package that knows them all.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shell-operator/shell-operator/internal/discover"
	"github.com/shell-operator/shell-operator/internal/endpoint"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/spool"
	"github.com/shell-operator/shell-operator/internal/telemetry"
	"github.com/shell-operator/shell-operator/internal/wire"
	"github.com/shell-operator/shell-operator/sdk/shell"
)

// Options of the operator. Log is required, and all durations have to be given.
type Options struct {
	HooksDir, TmpDir string
	KeepTmpFiles     bool
	Cluster          ClusterOptions
	JQLibraryPath    []string
	// Env is the environment that hooks inherit.
	Env []string
	Log *slog.Logger

	// ConfigTimeout ends a config call, HookTimeout a run (0 means none).
	ConfigTimeout, HookTimeout time.Duration
	// RetryMin and RetryMax bound the delay before a failed run is tried again.
	RetryMin, RetryMax time.Duration
	// ShutdownTimeout is the time from the first signal to the end. Hooks that are running then get
	// SIGTERM when four fifths of it are over, and SIGKILL at its end.
	ShutdownTimeout   time.Duration
	ContextsPerRun    int
	KeepManagedFields bool
	ProxyHookJSON     bool

	// Patches limits the requests that carry out what hooks ask for.
	Patches PatchOptions
	// ListenAddress is where the operator's own pages are served, as "host:port".
	ListenAddress string
	Profiling     bool
	Metrics       MetricsOptions
}

// PatchOptions are about changes of the cluster that hooks ask for.
type PatchOptions struct {
	QPS   float32
	Burst int
	// Timeout ends one request; 0 means none.
	Timeout time.Duration
	// DeleteTimeout is how long a Delete waits for the object to be gone.
	DeleteTimeout time.Duration
	// DryRun lets the API server check everything and change nothing.
	DryRun bool
}

// MetricsOptions are about metrics.
type MetricsOptions struct {
	// Prefix begins the names of the operator's own metrics.
	Prefix string
	// NoQueueActions leaves out how long operations on queues take.
	NoQueueActions bool
	// RestartHookCounters lets counters and histograms of hooks begin anew with each run that names them.
	RestartHookCounters bool
}

// queuedBytes is how much of the objects in waiting events stays in memory.
const queuedBytes = 32 << 20

// ErrKilled tells that hooks had to be killed at shutdown.
var ErrKilled = errors.New("hooks were still running when the shutdown timeout was over, they were killed: raise --shutdown-timeout, or make the hooks shorter")

// operator is everything together.
type operator struct {
	log     *slog.Logger
	hooks   []*hook.Hook
	queues  *queue.Set
	runner  *run.Runner
	watcher *watch.Watcher
	clock   *schedule.Clock
	spool   *spool.Spool
	meter   *meter
	pages   *endpoint.Server
	health  *health
	// startedUp is closed when all onStartup runs have succeeded.
	startedUp chan struct{}

	mu sync.Mutex
	// ticking are the hooks whose schedules are enabled.
	ticking map[*hook.Hook]bool
}

// Run runs the operator until ctx ends, and then for at most the shutdown timeout.
// When kill ends, running hooks are killed at once.
func Run(ctx, kill context.Context, o Options) (err error) {
	o.Log.Info("start shell-operator")
	if err := checkDirectories(&o); err != nil {
		return err
	}
	workspace, err := run.OpenWorkspace(o.TmpDir, o.KeepTmpFiles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workspace.Close()) }()
	op := &operator{
		log: o.Log, spool: spool.New(workspace.Dir(), queuedBytes),
		startedUp: make(chan struct{}), ticking: map[*hook.Hook]bool{}, health: newHealth(),
	}
	if op.meter, err = newMeter(o.Metrics, op.tasks); err != nil {
		return err
	}
	cl, err := connect(o.Cluster, workspace.Dir())
	if err != nil {
		return err
	}
	patches := cl.forPatches(o.Patches)
	op.meter.count(cl.config, "main")
	op.meter.count(patches, "object_patcher")
	library, err := shellLibrary(o.Env, filepath.Join(workspace.Dir(), "shell"))
	if err != nil {
		return err
	}
	o.Env = slices.Concat(o.Env, cl.env, library)

	filters := jq.NewCompiler(jq.Options{LibraryPath: o.JQLibraryPath})
	o.Log.Info("Initialize hooks manager. Search for and load all hooks.")
	op.hooks, err = discover.Hooks(ctx, discover.Options{
		Dir: o.HooksDir, Log: o.Log,
		Caller: configCaller{process.New(process.Options{Kill: kill}), o.Env, o.ConfigTimeout},
		Config: wire.ConfigOptions{JQ: filters, CheckCrontab: checkCrontab},
	})
	if err != nil {
		return err
	}
	warnAboutWebhooks(o.Log, op.hooks)
	op.meter.bind(op.hooks)
	op.health.expect(op.hooks)
	op.watcher, err = watch.New(watch.Options{
		Config: cl.config, JQ: filters, Sink: sink{op}, Meter: op.meter, Log: o.Log, KeepManagedFields: o.KeepManagedFields,
	})
	if err != nil {
		return err
	}
	effects, err := newEffects(patches, filters, o)
	if err != nil {
		return err
	}
	op.pages, err = endpoint.New(endpoint.Options{
		Address: o.ListenAddress, Profiling: o.Profiling, Ready: op.health.ready, Log: o.Log,
		Metrics: telemetry.MetricsHandler(op.meter.registry, o.Log), HookMetrics: telemetry.HookMetricsHandler(effects.metrics, o.Log),
	})
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(op.pages.Address())
	o.Log.Info("base http server started", "address", host, "port", port)
	op.clock = schedule.New(schedule.Options{Fire: op.tick, Log: o.Log})
	op.queues = queue.NewSet(queue.Options{Backoff: queue.DefaultBackoff(o.RetryMin, o.RetryMax), OnFailure: op.failed, OnPanic: op.panicked, OnAction: op.meter.OnAction})
	op.runner = run.New(op.hooks, run.Options{
		Executor:  process.New(process.Options{TermDelay: o.ShutdownTimeout / 5, Kill: kill}),
		Snapshots: op.watcher, Effects: effects, Workspace: workspace, Log: o.Log, Env: o.Env,
		Timeout: o.HookTimeout, ContextsPerRun: o.ContextsPerRun, ProxyJSON: o.ProxyHookJSON,
		Observe: op.meter.RunEnded,
	})
	return op.serve(ctx, kill, o.ShutdownTimeout)
}

// serve starts the stages, last one first, so that each finds the next one ready; and ends them the
// other way round.
func (op *operator) serve(ctx, kill context.Context, timeout time.Duration) error {
	// Runs outlive ctx: a hook that is running may finish.
	runs, endRuns := context.WithCancel(kill)
	defer endRuns()
	var background sync.WaitGroup
	defer background.Wait()
	// Both end with ctx and for no other reason.
	background.Go(func() { _ = op.watcher.Run(ctx) })
	background.Go(func() { _ = op.clock.Run(ctx) })
	background.Go(func() { op.start(ctx) })
	// The pages show the shutdown too, until the queues are empty.
	pages, endPages := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() {
		if err := op.pages.Run(pages); err != nil {
			op.log.Error("The operator's own pages are no longer served", "error", err.Error())
		}
	})
	defer endPages()

	over := make(chan struct{})
	var ending sync.WaitGroup
	ending.Go(func() { op.endRuns(ctx, over, timeout*4/5, endRuns) })
	err := op.queues.Run(ctx, runs)
	close(over)
	ending.Wait()
	if err == nil && runs.Err() != nil {
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

// shellLibrary unpacks the library for hooks in bash and returns the variables by which they find it. Who has set one
// of them means another library.
func shellLibrary(env []string, dir string) ([]string, error) {
	path, err := shell.Unpack(dir)
	if err != nil {
		return nil, err
	}
	variables := []string{"SHELL_LIB=" + path, "FRAMEWORK_DIR=" + filepath.Dir(path)}
	return slices.DeleteFunc(variables, func(own string) bool {
		name, _, _ := strings.Cut(own, "=")
		return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") && len(kv) > len(name)+1 })
	}), nil
}

func checkCrontab(text string) error {
	_, err := schedule.Parse(text)
	return err
}

func checkDirectories(o *Options) error {
	for _, dir := range []struct {
		path       *string
		flag, name string
	}{{&o.HooksDir, "--hooks-dir", "hooks"}, {&o.TmpDir, "--tmp-dir", "temp"}} {
		if *dir.path == "" && dir.name == "temp" {
			made, err := os.MkdirTemp("", "shell-operator-")
			if err != nil {
				return fmt.Errorf("cannot make a temp directory: %w", err)
			}
			*dir.path = made
		}
		if *dir.path == "" {
			return fmt.Errorf("the %s directory is not set: give %s", dir.name, dir.flag)
		}
		abs, err := filepath.Abs(*dir.path)
		if err != nil {
			return fmt.Errorf("cannot find the %s directory: %w", dir.name, err)
		}
		*dir.path = abs
	}
	if err := os.Mkdir(o.TmpDir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("cannot make the temp directory: %w: make its parent, or give another one with --tmp-dir", err)
	}
	for flag, dir := range map[string]string{"--hooks-dir": o.HooksDir, "--tmp-dir": o.TmpDir} {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("cannot use the directory of %s: %w", flag, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is %s, which is not a directory", flag, dir)
		}
	}
	return nil
}
