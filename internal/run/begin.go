package run

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/event"
)

// begin begins an attempt: the task's events are made current, and the log, the trace and the history of runs learn of it.
func (r *Runner) begin(ctx context.Context, t *Task) (context.Context, *attempt) {
	m := t.ensureExtra()
	last := &m.last
	last.attempts++
	last.runs++
	last.run = r.lastRun.Add(1)
	a := &attempt{task: t, log: r.opts.Log.With(t.LogFields()...), record: noRecord{}, Report: Report{
		Hook: t.Hook(), Binding: t.bindingLabel(), Queue: t.queueLabel(), Key: last.key, Waited: last.waited, Attempt: last.attempts,
		Merged: m.merged.tasks,
	}}
	ctx, a.endTrace = r.startRunSpan(r.noteWrites(ctx, t), t)
	if r.opts.Tracers != nil {
		a.log = a.log.With("trace.id", trace.SpanContextFromContext(ctx).TraceID().String())
	}
	a.logMerge(&m.merged)
	own := m.own
	m.own = nil
	t.refresh()
	a.started, a.endList = time.Now(), r.beginList(t)
	if t.events.Len() == 0 {
		return ctx, a
	}
	a.log.Info("Execute hook", "event.id", t.eventIDs(), "run", t.runID())
	if r.opts.Begin == nil {
		return ctx, a
	}
	if own == nil {
		own = &ownWait{}
	}
	a.record = r.opts.Begin(Begun{
		Hook: t.Hook(), ID: t.runID(), Task: t.ID(), Attempt: last.attempts, Queue: t.Queue(), Key: last.key, Binding: t.Binding(),
		Event: t.EventType(), Why: t.Describe(), Events: t.events.Len(), Waited: last.waited, OwnWrites: own.took, Lacking: own.lacking,
	})
	return ctx, a
}

func (a *attempt) logMerge(m *merged) {
	if m.tasks > 0 {
		a.log.Info("Binding contexts from are dropped from queue", "count", m.tasks, "dropped", m.dropped,
			"message", fmt.Sprintf("contexts of %d more tasks go into one run, %d of them are covered by their group", m.tasks, m.dropped))
	}
	m.tasks, m.dropped = 0, 0
}

// refresh reads the objects of requeues and of retried events. One that is gone or is being deleted leaves the task, and so does a retried
// Deleted of an object that the binding has again.
func (t *Task) refresh() {
	if !t.is(refreshed) {
		return
	}
	var events event.Log
	for ev := range t.Events() {
		if !t.current(&ev) {
			t.runner.opts.Pending.Leave(&ev, true)
			continue
		}
		events.Add(ev)
	}
	t.events = events
}

// current reads the object of an event if an attempt has to do so, and reports whether the event is to be delivered.
func (t *Task) current(ev *event.Event) bool {
	o := ev.Object
	switch {
	case !ev.Refreshed():
		return true
	case ev.Watch == event.Deleted:
		return !t.runner.opts.Objects.Has(t.Hook(), ev.Index, o.Namespace, o.Name)
	}
	now, ok := t.runner.opts.Objects.Object(t.Hook(), ev.Index, o.Namespace, o.Name)
	ev.Object = now.Object
	return ok
}

// beginList is called before a run gets its contexts. The returned function ends the run.
func (r *Runner) beginList(t *Task) (end func()) {
	for ev := range t.Events() {
		if listsPrevious(&ev) {
			r.opts.Pending.BeginList(t.readExtra().last.run)
			return r.opts.Pending.EndList
		}
	}
	return func() {}
}

// maxIDs limits the ids in a log record.
const maxIDs = 50

// eventIDs are the ids under which the events of the task were queued, as event.id of log records.
func (t *Task) eventIDs() string {
	text := t.ID()
	for _, id := range t.readExtra().merged.ids {
		text += "," + strconv.FormatInt(id, 10)
	}
	return text
}
