package run

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Tracers trace events through queue and run. Without them tracing costs nothing.
//
// Each event starts a trace. The run belongs to the trace of its first event, and has links to those of the others.
type Tracers struct{ Operator, Hook, Executor trace.Tracer }

// maxLinks limits the links of a run.
const maxLinks = 128

// startEventTrace records the event as the root of a trace.
func (r *Runner) startEventTrace(t *Task, ev *event.Event) {
	if r.opts.Tracers == nil {
		return
	}
	attributes := append(t.attributes(), attribute.String("binding.type", ev.Type.String()))
	if ev.Type == event.Change {
		attributes = append(attributes, attribute.String("watch.event", ev.Watch.String()), attribute.String("object.kind", ev.Object.Kind),
			attribute.String("object.namespace", ev.Object.Namespace), attribute.String("object.name", ev.Object.Name))
	}
	_, span := r.opts.Tracers.Operator.Start(context.Background(), "event", trace.WithNewRoot(), trace.WithAttributes(attributes...))
	span.End()
	t.ensureExtra().origins = []trace.SpanContext{span.SpanContext()}
}

func (t *Task) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("hook", t.Hook().Name), attribute.String("binding", t.bindingLabel()), attribute.String("queue", t.queueLabel()),
	}
}

// startRunSpan records the time in the queue and starts the span of a run. The returned function ends it.
func (r *Runner) startRunSpan(ctx context.Context, t *Task) (context.Context, func(error)) {
	if r.opts.Tracers == nil {
		return ctx, noEnd
	}
	operator, m := r.opts.Tracers.Operator, t.readExtra()
	if len(m.origins) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, m.origins[0])
	}
	if now := time.Now(); m.review == nil {
		_, waiting := operator.Start(ctx, "queue", trace.WithTimestamp(now.Add(-m.waited)),
			trace.WithAttributes(attribute.String("queue", t.Queue())))
		waiting.End(trace.WithTimestamp(now))
	}
	var links []trace.Link
	for _, other := range m.origins[min(1, len(m.origins)):min(maxLinks+1, len(m.origins))] {
		links = append(links, trace.Link{SpanContext: other})
	}
	attributes := append(t.attributes(), attribute.String("task.id", t.ID()), attribute.Int("attempt", m.attempts),
		attribute.Int("contexts", t.events.Len()))
	if m.key != "" {
		attributes = append(attributes, attribute.String("key", m.key))
	}
	ctx, span := operator.Start(ctx, "taskHandleHookRun", trace.WithLinks(links...), trace.WithAttributes(attributes...))
	return ctx, endOf(span)
}

// startHookSpan starts the span of the run with its files, startProcessSpan that of its process.
func (r *Runner) startHookSpan(ctx context.Context, t *Task) (context.Context, func(error)) {
	if r.opts.Tracers == nil {
		return ctx, noEnd
	}
	ctx, span := r.opts.Tracers.Hook.Start(ctx, "Run", trace.WithAttributes(attribute.String("name", t.Hook().Name),
		attribute.String("path", t.Hook().Path)))
	return ctx, endOf(span)
}

func (r *Runner) startProcessSpan(ctx context.Context) (context.Context, func(error)) {
	if r.opts.Tracers == nil {
		return ctx, noEnd
	}
	ctx, span := r.opts.Tracers.Executor.Start(ctx, "RunAndLogLines")
	return ctx, endOf(span)
}

// addWorker adds the worker of a run to the span of its process.
func addWorker(ctx context.Context, s process.Served) {
	if s.Worker > 0 {
		trace.SpanFromContext(ctx).SetAttributes(attribute.Int("worker", s.Worker), attribute.Int("worker.run", s.Run),
			attribute.Float64("worker.start_seconds", s.Started.Seconds()))
	}
}

func noEnd(error) {}

func endOf(span trace.Span) func(error) {
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, PublicReason(err))
		}
		span.End()
	}
}

// traceEnvironment returns the variables by which a hook can continue the trace.
func traceEnvironment(ctx context.Context) []string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	env := []string{"TRACEPARENT=" + carrier.Get("traceparent")}
	if state := carrier.Get("tracestate"); state != "" {
		env = append(env, "TRACESTATE="+state)
	}
	return env
}
