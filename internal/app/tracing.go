package app

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/traces"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// newTracing returns the tracers, and a function that sends the last spans. Without an endpoint it returns no tracers.
func newTracing(ctx context.Context, o Options) (tracers *traces.Tracers, end func(), err error) {
	if o.Tracing.Endpoint == "" {
		return nil, func() {}, nil
	}
	o.Tracing.Instance, o.Tracing.Log = o.Pod, o.Log
	t, err := telemetry.NewTracing(ctx, o.Tracing)
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		// Hooks may have needed all of the shutdown timeout; the last spans get a little of what comes after it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(o.ShutdownTimeout/5, 2*time.Second))
		defer cancel()
		t.Close(ctx)
	}
	return &traces.Tracers{Operator: t.Tracer("shell-operator"), Hook: t.Tracer("hook"), Executor: t.Tracer("executor")}, end, nil
}

// traced returns an Executor that traces processes if runs are traced.
func (op *operator) traced(e run.Executor) run.Executor {
	if op.tracers == nil {
		return e
	}
	return op.tracers.Trace(e)
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
