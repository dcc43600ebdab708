package app

import (
	"log/slog"
	"time"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/cluster"
	"github.com/shell-operator/shell-operator/internal/effect/apply"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/run"
)

// Options of the operator. Log is required, and all durations have to be given.
type Options struct {
	HooksDir, TmpDir string
	// WatchHooks loads hooks anew when their files change.
	WatchHooks    bool
	KeepTmpFiles  bool
	Cluster       cluster.Options
	JQLibraryPath []string
	// Env is the environment of the operator, HookEnv are names and patterns of what hooks inherit of it; none means all.
	Env, HookEnv []string
	Log          *slog.Logger
	// Debug is about the debug API; Version is shown by it.
	Debug   DebugOptions
	Version string

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
	Webhooks      WebhookOptions
	HTTP          HTTPOptions
	Election      ElectionOptions
	Tracing       TracingOptions
	// Pod is the name of the Pod that the operator runs in; empty means to find out, if there is one.
	Pod string
	// KubernetesEvents lets Events about that Pod tell of failing hooks.
	KubernetesEvents bool
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

// client returns the configuration of a client with limits of its own, so that many changes do not hold up the watches.
func (o PatchOptions) client(cl *cluster.Cluster) *rest.Config {
	config := rest.CopyConfig(cl.Config)
	config.QPS, config.Burst, config.Timeout = o.QPS, o.Burst, o.Timeout
	return config
}

// newEffects makes what carries out the wishes of hooks.
func newEffects(client *rest.Config, filters *jq.Compiler, tracers *run.Tracers, o Options) (*apply.Effects, error) {
	effects := apply.Options{
		Config: client, Filters: filters, DeleteTimeout: o.Patches.DeleteTimeout, DryRun: o.Patches.DryRun,
		RestartCounters: o.Metrics.RestartHookCounters, Log: o.Log,
	}
	if tracers != nil {
		effects.Tracer = tracers.Operator
	}
	return apply.New(effects)
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
