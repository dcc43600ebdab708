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
// Each event starts a trace. The run belongs to the trace of its first event, and has links to the other traces.
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

// startRunSpan records the time in the queue and starts the spans of a run and, if the task has events, of its hook. The returned function
// ends them.
func (r *Runner) startRunSpan(ctx context.Context, t *Task) (context.Context, func(error)) {
	if r.opts.Tracers == nil {
		return ctx, func(error) {}
	}
	operator, m := r.opts.Tracers.Operator, t.readExtra()
	if len(m.origins) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, m.origins[0])
	}
	if now := time.Now(); m.review == nil {
		_, waiting := operator.Start(ctx, "queue", trace.WithTimestamp(now.Add(-m.last.waited)),
			trace.WithAttributes(attribute.String("queue", t.Queue())))
		waiting.End(trace.WithTimestamp(now))
	}
	var links []trace.Link
	for _, other := range m.origins[min(1, len(m.origins)):min(maxLinks+1, len(m.origins))] {
		links = append(links, trace.Link{SpanContext: other})
	}
	attributes := append(t.attributes(), attribute.String("task.id", t.ID()), attribute.Int("attempt", m.last.attempts),
		attribute.Int("contexts", t.events.Len()))
	if m.last.key != "" {
		attributes = append(attributes, attribute.String("key", m.last.key))
	}
	ctx, run := operator.Start(ctx, "taskHandleHookRun", trace.WithLinks(links...), trace.WithAttributes(attributes...))
	if t.events.Len() == 0 {
		return ctx, func(err error) { endSpan(run, err) }
	}
	ctx, hook := r.opts.Tracers.Hook.Start(ctx, "Run", trace.WithAttributes(attribute.String("name", t.Hook().Name),
		attribute.String("path", t.Hook().Path)))
	return ctx, func(err error) {
		endSpan(hook, err)
		endSpan(run, err)
	}
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, PublicReason(err))
	}
	span.End()
}

// tracedExecutor traces processes, and passes the trace on to them.
type tracedExecutor struct {
	Executor
	tracer trace.Tracer
}

// Execute implements Executor.
func (e tracedExecutor) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	ctx, span := e.tracer.Start(ctx, "RunAndLogLines")
	in.Vars = append(in.Vars, traceEnvironment(ctx)...)
	result, err := e.Executor.Execute(ctx, in)
	if s := result.Served; s.Worker > 0 {
		span.SetAttributes(attribute.Int("worker", s.Worker), attribute.Int("worker.run", s.Run),
			attribute.Float64("worker.start_seconds", s.Started.Seconds()))
	}
	endSpan(span, err)
	return result, err
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
