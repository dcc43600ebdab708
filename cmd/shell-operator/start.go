package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/shell-operator/shell-operator/internal/app"
	"github.com/shell-operator/shell-operator/internal/dev"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/shard"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// signalled is the error of a run that a second signal has ended.
type signalled syscall.Signal

func (s signalled) Error() string { return "ended by a second signal: " + syscall.Signal(s).String() }

func exitCode(err error) (int, bool) {
	var s signalled
	if errors.As(err, &s) {
		return 128 + int(s), true
	}
	if errors.As(err, new(errNoRun)) {
		return exitNoRun, true
	}
	return 0, false
}

// mainSettings are those that the help of the program shows.
var mainSettings = []string{"hooks-dir", "watch-hooks", "kube-config", "kube-context", "log-level", "log-type",
	"leader-election", "shards"}

func newStartCommand(s *settings, stdout io.Writer) *cobra.Command {
	return uses(&cobra.Command{
		Use:   "start",
		Short: "Run the operator (the default)",
		Long: `Run the operator until SIGINT or SIGTERM.

After the first signal running hooks finish within --shutdown-timeout; the second signal kills them immediately.

Exit codes: 0 after a clean stop; 1 after an error at the start, if hooks had to be killed, or if the
Lease was lost; 128+n after a second signal n.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return start(s, stdout) },
	}, append(slices.Clone(mainSettings), "hook-timeout", "shutdown-timeout", "namespace", "dry-run")...)
}

func (w *webhookServer) options() webhook.WebhookServer {
	o := w.WebhookServer
	o.ListenAddress = net.JoinHostPort(w.address, w.port)
	return o
}

// killGrace is the time for cleanup after a second signal. Hooks are killed before it begins.
const killGrace = 2 * time.Second

func start(s *settings, stdout io.Writer) error {
	log := logger(s, stdout)
	s.warnAboutVariables(log)
	return operate(log, func(ctx, kill context.Context, watch watchdog) error {
		options := s.options(log)
		options.Watchdog = watch
		return app.Run(ctx, kill, options)
	}, s.ShutdownTimeout)
}

// watchdog ends the process when its shutdown blocks.
type watchdog = *lifecycle.Watchdog

// operate runs an operator until a signal; the second signal kills it.
func operate(log *slog.Logger, run func(ctx, kill context.Context, watch watchdog) error, shutdownTimeout time.Duration) error {
	if err := protect(); err != nil {
		log.Warn("Processes of this user can read the operator's memory", "error", err.Error())
	}
	stderr := os.Stderr
	defer telemetry.RouteStderr(log)()
	kill, killNow := context.WithCancelCause(context.Background())
	defer killNow(nil)
	ctx, stop := signals(func(sig syscall.Signal) {
		killNow(signalled(sig))
		// A blocked shutdown must not prevent the user from ending the program.
		time.AfterFunc(killGrace, func() { os.Exit(128 + int(sig)) })
	})
	defer stop()
	limitGarbage()
	watch := lifecycle.NewWatchdog(shutdownTimeout, func(blocked string) { giveUp(log, stderr, killNow, blocked) })
	context.AfterFunc(ctx, watch.Start)
	err := run(ctx, kill, watch)
	var second signalled
	if errors.As(context.Cause(kill), &second) {
		return second
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // stopped while starting
	}
	return err
}

// giveUp ends the process whatever blocks. The log may be what blocks.
func giveUp(log *slog.Logger, stderr io.Writer, killHooks context.CancelCauseFunc, blocked string) {
	killHooks(errors.New("the shutdown timeout is over"))
	written := make(chan struct{})
	go func() {
		log.Error("The shutdown timeout is over and something still blocks, the operator exits", "phase", "shutdown", "blocked", blocked)
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(time.Second):
		go fmt.Fprintf(stderr, "Error: the shutdown timeout is over, the log cannot be written, and this still blocks: %s\n", blocked)
	}
	time.Sleep(100 * time.Millisecond) // for the processes of hooks to be killed
	os.Exit(exitError)
}

// garbage is how much garbage, in percent of the live heap, may gather before it is collected. Nearly all of our memory
// is bytes without pointers, which the collector does not scan, so collecting twice as often as Go does by default
// costs little time and saves memory at the peaks.
const garbage = 50

// limitGarbage respects GOGC.
func limitGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

func logger(s *settings, stdout io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	level.Set(telemetry.ParseLevel(s.logLevel))
	s.level = level
	log := telemetry.NewLogger(stdout, telemetry.LogOptions{Level: level, Type: strings.ToLower(s.logType), NoTime: s.logNoTime})
	telemetry.RouteKlog(log, s.debugKubernetesAPI)
	return log
}

// options completes the options of the operator.
func (s *settings) options(log *slog.Logger) app.Options {
	o := s.Options
	o.Log, o.Version, o.Env, o.Debug = log, version, os.Environ(), s.debugOptions()
	o.Webhooks.NoRegistration = o.Patches.DryRun // which changes nothing
	o.OwnHomes, o.KeepTmpFiles = s.hookHome == homeOwn, bool(s.keepTmpFiles)
	o.ContextsPerRun, o.SkipExistingV0 = int(s.contextsPerRun), s.v0Existing == "skip"
	o.ListenAddress, o.HTTP.ListenAddress = net.JoinHostPort(s.listenAddress, s.listenPort), net.JoinHostPort(s.httpAddress, s.httpPort)
	o.Installation, o.Election.Shards, o.Pod, o.PodUID = s.installation(), s.shards(), s.env["POD_NAME"], s.env["POD_UID"]
	o.Metrics.NoQueueActions = s.env["QUEUE_ACTIONS_METRICS"] == "no"
	w := &o.Webhooks
	w.Admission, w.Conversion, w.Namespace = s.validating.options(), s.conversion.options(), s.Installation.Namespace
	return o
}

// shards is the number of shards; 0 without.
func (s *settings) shards() int {
	if s.Election.Shards < shard.Min {
		return 0
	}
	return s.Election.Shards
}

func (s *settings) installation() kube.Installation {
	o := s.Installation
	o.Lease = s.Election.Lease
	return o
}

// dev are the settings for commands without an operator.
func (s *settings) dev() dev.Options {
	return dev.Options{
		HooksDir: s.HooksDir, Env: os.Environ(), HookEnv: s.HookEnv, Workers: s.Workers,
		JQLibraryPath: s.JQLibraryPath,
		ConfigTimeout: s.ConfigTimeout, HookTimeout: s.HookTimeout, ContextsPerRun: int(s.contextsPerRun), SkipExistingV0: s.v0Existing == "skip",
		Cluster: s.Cluster,
	}
}
