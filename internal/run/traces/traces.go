// Package traces follows events through queue and run. Without it tracing costs nothing.
//
// Each event starts a trace. The run belongs to the trace of its first event, and has links to the other traces.
package traces

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// Tracers trace runs.
type Tracers struct{ Operator, Hook, Executor trace.Tracer }

var _ run.Marker = (*Tracers)(nil)

// maxLinks limits the links of a run.
const maxLinks = 128

// Joins implements run.Companion.
func (t *Tracers) Joins(*hook.Hook, bool) bool { return true }

// Mark records the event as the root of a trace.
func (t *Tracers) Mark(task *run.Task, ev event.Event) any {
	attributes := append(labels(task), attribute.String("binding.type", ev.Type.String()))
	if ev.Type == event.Change {
		attributes = append(attributes, attribute.String("watch.event", ev.Watch.String()), attribute.String("object.kind", ev.Object.Kind),
			attribute.String("object.namespace", ev.Object.Namespace), attribute.String("object.name", ev.Object.Name))
	}
	_, span := t.Operator.Start(context.Background(), "event", trace.WithNewRoot(), trace.WithAttributes(attributes...))
	span.End()
	return span.SpanContext()
}

func labels(task *run.Task) []attribute.KeyValue {
	binding, queue := task.Labels()
	return []attribute.KeyValue{
		attribute.String("hook", task.Hook().Name), attribute.String("binding", binding), attribute.String("queue", queue),
	}
}

// spans is the key of the spans of a run in its context, the outer one first.
type spans struct{}

// Begin records the time in the queue and starts the spans of a run and, if the task has events, of its hook.
func (t *Tracers) Begin(ctx context.Context, a *run.Attempt) context.Context {
	task, origins := a.Task, a.Task.Marks()
	if len(origins) > 0 {
		ctx = trace.ContextWithSpanContext(ctx, origins[0].(trace.SpanContext))
	}
	if now := time.Now(); !task.Answers() {
		_, waiting := t.Operator.Start(ctx, "queue", trace.WithTimestamp(now.Add(-a.Waited)),
			trace.WithAttributes(attribute.String("queue", task.Queue())))
		waiting.End(trace.WithTimestamp(now))
	}
	var links []trace.Link
	for _, other := range origins[min(1, len(origins)):min(maxLinks+1, len(origins))] {
		links = append(links, trace.Link{SpanContext: other.(trace.SpanContext)})
	}
	attributes := append(labels(task), attribute.String("task.id", task.ID()), attribute.Int("attempt", a.Attempt),
		attribute.Int("contexts", task.Len()))
	if a.Key != "" {
		attributes = append(attributes, attribute.String("key", a.Key))
	}
	ctx, outer := t.Operator.Start(ctx, "taskHandleHookRun", trace.WithLinks(links...), trace.WithAttributes(attributes...))
	all := []trace.Span{outer}
	if task.Len() > 0 {
		var inner trace.Span
		ctx, inner = t.Hook.Start(ctx, "Run", trace.WithAttributes(attribute.String("name", a.Hook.Name), attribute.String("path", a.Hook.Path)))
		all = append(all, inner)
	}
	a.Log = a.Log.With("trace.id", outer.SpanContext().TraceID().String())
	return context.WithValue(ctx, spans{}, all)
}

// Done ends the spans of a run.
func (t *Tracers) Done(ctx context.Context, _ *run.Attempt, outcome error) {
	all, _ := ctx.Value(spans{}).([]trace.Span)
	for _, span := range slices.Backward(all) {
		endSpan(span, outcome)
	}
}

func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, run.PublicReason(err))
	}
	span.End()
}

// Trace returns an Executor that traces processes, and passes the trace on to them.
func (t *Tracers) Trace(next run.Executor) run.Executor { return traced{next, t.Executor} }

type traced struct {
	run.Executor
	tracer trace.Tracer
}

// Execute implements run.Executor.
func (e traced) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	ctx, span := e.tracer.Start(ctx, "RunAndLogLines")
	in.Vars = append(in.Vars, environment(ctx)...)
	result, err := e.Executor.Execute(ctx, in)
	if s := result.Served; s.Worker > 0 {
		span.SetAttributes(attribute.Int("worker", s.Worker), attribute.Int("worker.run", s.Run),
			attribute.Float64("worker.start_seconds", s.Started.Seconds()))
	}
	endSpan(span, err)
	return result, err
}

// environment returns the variables by which a hook can continue the trace.
func environment(ctx context.Context) []string {
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
