package app

import (
	"log/slog"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/source/webhook"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// Options of the operator. Log is required, and all durations have to be given.
type Options struct {
	HooksDir, TmpDir string
	// RunDir is where the files of runs are; empty means TmpDir.
	RunDir string
	// WatchHooks reloads hooks when their files change.
	WatchHooks bool
	// Reloaded is as in lifecycle.Options.
	Reloaded     func(error)
	KeepTmpFiles bool
	Cluster      kube.Options
	// Installation names this operator among all operators of the cluster.
	Installation  kube.Installation
	JQLibraryPath []string
	// Env is the environment of the operator, HookEnv are names and patterns of what hooks inherit of it; none means all.
	Env, HookEnv []string
	// OwnHomes gives each hook a home directory of its own.
	OwnHomes bool
	// Kubectl is a mode of package kubectl, for hooks that set none.
	Kubectl string
	// Workers lets hooks with settings.worker serve runs by processes that are started once.
	Workers bool
	Log     *slog.Logger
	// Debug is about the debug API; Version is shown by it.
	Debug   DebugOptions
	Version string

	// ConfigTimeout ends a config call, HookTimeout a run (0 means none).
	ConfigTimeout, HookTimeout time.Duration
	// RetryMin and RetryMax bound the delay before a failed run is tried again.
	RetryMin, RetryMax time.Duration
	// MaxRuns limits the runs of all queues together; 0 means no limit. MaxParked limits the parked contexts; 0 means no limit.
	MaxRuns, MaxParked int
	// From SpoolLimit bytes of waiting objects on the disk on, Modified events take the place of earlier ones. 0 means no limit.
	SpoolLimit int
	// Record are the runs that are recorded, for hooks that do not say.
	Record hook.Record
	// ShutdownTimeout is the time from the first signal to the end. Hooks that are running then get
	// SIGTERM when four fifths of it are over, and SIGKILL at its end.
	ShutdownTimeout time.Duration
	// Watchdog is started by the signal, and when the operator ends by itself. Nil means none.
	Watchdog *lifecycle.Watchdog
	// ContextsPerRun is as in hookset.Options.
	ContextsPerRun    int
	SkipExistingV0    bool
	KeepManagedFields bool
	ProxyHookJSON     bool

	// Patches limits the requests that apply the changes of hooks.
	Patches apply.Settings
	// ListenAddress is where the operator's own pages are served, as "host:port".
	ListenAddress string
	Profiling     bool
	Metrics       MetricsOptions
	Webhooks      webhook.WebhookOptions
	HTTP          webhook.HTTPOptions
	Election      ElectionOptions
	// Tracing has no endpoint if there are no traces.
	Tracing telemetry.TracingOptions
	// Pod is the name of the Pod that the operator runs in; empty means to find out, if there is one.
	Pod string
	// PodUID is the uid of that Pod; empty means to read it from the API server when an Event needs it.
	PodUID string
	// KubernetesEvents reports failing hooks by Events about that Pod.
	KubernetesEvents bool
}

// MetricsOptions are about metrics.
type MetricsOptions struct {
	// Prefix begins the names of the operator's own metrics.
	Prefix string
	// NoQueueActions leaves out how long operations on queues take.
	NoQueueActions bool
	// RestartHookCounters resets counters and histograms of hooks with each run that names them.
	RestartHookCounters bool
}
