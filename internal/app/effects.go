package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/effect/metric"
	"github.com/shell-operator/shell-operator/internal/effect/patch"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/resource"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// effects carry out what hooks hand back.
type effects struct {
	filters *jq.Compiler
	patches *patch.Applier
	metrics *metric.Store
	// tracer is nil when nobody wants traces.
	tracer trace.Tracer
}

var _ run.Effects = (*effects)(nil)

func newEffects(config *rest.Config, filters *jq.Compiler, o Options) (*effects, error) {
	client, err := resource.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client for patches: %w", err)
	}
	return &effects{
		filters: filters,
		patches: patch.New(patch.Options{
			Client: client, Resolver: resource.NewResolver(client), Filters: filters,
			DryRun: o.Patches.DryRun, DeleteTimeout: o.Patches.DeleteTimeout,
		}),
		metrics: metric.New(metric.Options{Log: o.Log, Restart: o.Metrics.RestartHookCounters}),
	}, nil
}

// Apply checks everything first. Then the cluster is changed; metrics count only if that went well.
func (e *effects) Apply(ctx context.Context, log *slog.Logger, h *hook.Hook, out run.Outputs) ([]run.Change, error) {
	asked, err := checkOutputs(h, out, e.filters)
	for _, w := range asked.warnings {
		log.Warn("A metric operation is ignored", "warning", w.String())
	}
	if err != nil {
		return nil, err
	}
	if err := e.applyPatches(ctx, log, asked.patches); err != nil {
		return changes(asked.patches), fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	e.metrics.Apply(h.Name, asked.metrics)
	return changes(asked.patches), nil
}

// wishes are what a hook has asked for in its files, but for answers to reviews.
type wishes struct {
	metrics  []effect.Metric
	patches  []effect.Patch
	warnings []wire.Warning
}

// checkOutputs reads all files of a run. One mistake in any of them, and nothing is carried out.
func checkOutputs(h *hook.Hook, out run.Outputs, filters *jq.Compiler) (w wishes, err error) {
	if w.metrics, w.warnings, err = wire.ParseMetrics(out.Metrics); err != nil {
		return w, fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	if err := checkAnswers(out); err != nil {
		return w, fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	if w.patches, err = wire.ParsePatches(out.Patch, filters); err != nil {
		return w, fmt.Errorf("%s FAILED: %w", h.Name, err)
	}
	return w, nil
}

// ApplyFailed carries out what a hook wants to be done even though it failed: to report that in a status.
func (e *effects) ApplyFailed(ctx context.Context, log *slog.Logger, _ *hook.Hook, out run.Outputs) ([]run.Change, error) {
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
	if err := e.applyPatches(ctx, log, kept); err != nil {
		return changes(kept), fmt.Errorf("and its failure cannot be reported: %w", err)
	}
	return changes(kept), nil
}

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

// checkAnswers refuses broken answers, even of runs that nobody waits for an answer of.
func checkAnswers(out run.Outputs) error {
	var errs []error
	if out.Admission != nil {
		if _, err := wire.ParseAdmission(out.Admission); err != nil {
			errs = append(errs, fmt.Errorf("got bad validating response: %w", err))
		}
	}
	if out.Conversion != nil {
		if _, err := wire.ParseConversion(out.Conversion); err != nil {
			errs = append(errs, fmt.Errorf("got bad conversion response: %w", err))
		}
	}
	if out.HTTP != nil {
		if _, err := wire.ParseHTTP(out.HTTP); err != nil {
			errs = append(errs, fmt.Errorf("got bad http response: %w", err))
		}
	}
	return errors.Join(errs...)
}
