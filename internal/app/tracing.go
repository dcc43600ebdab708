package app

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/telemetry/tracing"
)

// TracingOptions are about traces. Without an endpoint there are none.
type TracingOptions struct {
	// Endpoint is "host:port" of an OTLP receiver; Token is sent to it.
	Endpoint, Token string
	// Insecure turns encryption off; CA is a file with the certificates to trust.
	Insecure bool
	CA       string
}

// newTracing returns the tracers, and what sends the last spans. Both are nothing when nobody wants traces.
func newTracing(ctx context.Context, o Options) (tracers *run.Tracers, end func(), err error) {
	if o.Tracing.Endpoint == "" {
		return nil, func() {}, nil
	}
	t, err := tracing.New(ctx, tracing.Options{
		Endpoint: o.Tracing.Endpoint, Token: o.Tracing.Token, Insecure: o.Tracing.Insecure, CA: o.Tracing.CA,
		Instance: o.Pod, Log: o.Log,
	})
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		// Hooks may have needed all of the shutdown timeout; the last spans get a little of what comes after it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(o.ShutdownTimeout/5, 2*time.Second))
		defer cancel()
		t.Close(ctx)
	}
	return &run.Tracers{Operator: t.Tracer("shell-operator"), Hook: t.Tracer("hook"), Executor: t.Tracer("executor")}, end, nil
}

// applyPatches carries out what a run asked for, and shows it in the run's trace.
func (e *effects) applyPatches(ctx context.Context, log *slog.Logger, patches []effect.Patch) error {
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

// enablingStarts begins the span of enabling a hook's kubernetes bindings.
func (op *operator) enablingStarts(ctx context.Context, h *hook.Hook) (context.Context, func()) {
	if op.tracers == nil {
		return ctx, func() {}
	}
	ctx, span := op.tracers.Operator.Start(ctx, "taskHandleEnableKubernetesBindings", trace.WithAttributes(
		attribute.String("hook", h.Name), attribute.Int("bindings", len(h.Kubernetes))))
	return ctx, func() { span.End() }
}
