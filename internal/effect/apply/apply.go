// Package apply carries out what a run has handed back: the order in which it is checked and done.
//
// Callers may rely on this:
//   - Everything is checked first. One mistake in any file, and nothing is done.
//   - Metrics count only if the changes of the cluster went well.
//   - Of a failed run only those changes are made that the hook wants to be made even then.
//   - Errors and reports name objects and have none of their contents.
package apply

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/effect/patch"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// Settings are what users decide about the changes of the cluster.
type Settings struct {
	// QPS and Burst limit the requests; a negative QPS means no limit. Timeout ends one; 0 means none.
	QPS     float32
	Burst   int
	Timeout time.Duration
	// DeleteTimeout is how long a Delete waits for the object to be gone.
	DeleteTimeout time.Duration
	// DryRun lets the API server check everything and change nothing.
	DryRun bool
}

// Client returns the configuration of a client with limits of its own, so that many changes do not hold up the watches.
func (s Settings) Client(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = s.QPS, s.Burst, s.Timeout
	return config
}

// Options of Effects. Tracer may be nil: then there are no traces.
type Options struct {
	Settings
	// Client is that of Settings, possibly with more around it.
	Client  *rest.Config
	Filters *jq.Compiler
	// RestartCounters lets counters and histograms begin anew with each run that names them.
	RestartCounters bool
	// MaxSeries is how many series of metrics a hook may have; 0 means any number.
	MaxSeries int
	Tracer    trace.Tracer
	Log       *slog.Logger
}

// Effects carry out what hooks hand back.
type Effects struct {
	// Metrics are those that hooks have handed back.
	Metrics *metric.Store
	filters *jq.Compiler
	patches *patch.Applier
	tracer  trace.Tracer
}

var _ run.Effects = (*Effects)(nil)

// New makes a client, and sends nothing.
func New(o Options) (*Effects, error) {
	client, err := kube.NewClient(o.Client)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for patches: %w", err)
	}
	return &Effects{
		Metrics: metric.New(metric.Options{Log: o.Log, Restart: o.RestartCounters, MaxSeries: o.MaxSeries}),
		filters: o.Filters,
		patches: patch.New(patch.Options{
			Client: client, Resolver: kube.NewResolver(client), Filters: o.Filters,
			DryRun: o.DryRun, DeleteTimeout: o.DeleteTimeout,
		}),
		tracer: o.Tracer,
	}, nil
}

// Apply checks everything first. Then the cluster is changed; metrics count only if that went well.
func (e *Effects) Apply(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs) ([]run.Change, error) {
	asked, err := Check(h, out, e.filters)
	for _, w := range asked.Warnings {
		log.Warn("A metric operation is ignored", "warning", w.String())
	}
	if err != nil {
		return nil, err
	}
	large := len(out.Patch) > largeFile
	out = run.Outputs{} // what of it is still wanted has become a part of asked
	if large {
		runtime.GC() // otherwise it goes when there is as much garbage of requests
	}
	if err := e.change(ctx, log, asked.Patches); err != nil {
		return changes(asked.Patches), fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	e.Metrics.Apply(h.Name, asked.Metrics)
	return changes(asked.Patches), nil
}

// ApplyFailed carries out what a hook wants to be done even though it failed: to report that in a status.
func (e *Effects) ApplyFailed(ctx context.Context, log *slog.Logger, _ *hook.Hook, out run.Outputs) ([]run.Change, error) {
	patches, err := wire.ParsePatches(out.Patch, e.filters)
	if err != nil {
		log.Warn("The patches of a failed hook are ignored", "error", err.Error())
		return nil, nil
	}
	var kept []effect.Patch
	for _, p := range patches {
		if p.IgnoreHookError {
			kept = append(kept, p)
		}
	}
	if err := e.change(ctx, log, kept); err != nil {
		return changes(kept), fmt.Errorf("and its failure cannot be reported: %w", err)
	}
	return changes(kept), nil
}

// largeFile is a file of operations that few hooks write.
const largeFile = 4 << 20

// changes are the patches without what may be secret.
func changes(patches []effect.Patch) []run.Change {
	list := make([]run.Change, len(patches))
	for i, p := range patches {
		list[i] = run.Change{Operation: p.Operation.String(), Kind: p.Kind, Namespace: p.Namespace, Name: p.Name}
		if p.Subresource != "" {
			list[i].Kind += "/" + p.Subresource
		}
	}
	return list
}

// change carries out what a run asked for, and shows it in the run's trace.
func (e *Effects) change(ctx context.Context, log *slog.Logger, patches []effect.Patch) error {
	if e.tracer == nil || len(patches) == 0 {
		return e.patches.Apply(ctx, log, patches)
	}
	ctx, span := e.tracer.Start(ctx, "patch", trace.WithAttributes(attribute.Int("operations", len(patches))))
	defer span.End()
	err := e.patches.Apply(ctx, log, patches)
	if err != nil {
		span.SetStatus(codes.Error, run.PublicReason(err))
	}
	return err
}
