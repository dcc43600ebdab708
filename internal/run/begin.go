package run

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
)

// begin begins an attempt: the task's events are made current, and the companions take part.
func (r *Runner) begin(ctx context.Context, t *Task) (context.Context, *Attempt, error) {
	m := t.ensureExtra()
	last := &m.last
	last.attempts++
	last.runs++
	last.run = r.lastRun.Add(1)
	a := &Attempt{Task: t, Log: r.opts.Log.With(t.LogFields()...), Record: noRecord{}, Unread: true, Report: Report{
		Hook: t.Hook(), Binding: t.bindingLabel(), Queue: t.queueLabel(), Key: last.key, Waited: last.waited, Attempt: last.attempts,
		Merged: m.merged.tasks,
	}}
	t.refresh()
	a.started, a.endList = time.Now(), r.beginList(t)
	a.companions = r.hooks.companions(t.Hook(), m.review != nil)
	err := a.each(nil, func(c Companion, _ error) error { ctx = c.Begin(ctx, a); return nil })
	a.logMerge(&m.merged)
	if t.events.Len() > 0 {
		a.Log.Info("Execute hook", "event.id", t.eventIDs(), "run", t.RunID())
	}
	return ctx, a, err
}

func (a *Attempt) logMerge(m *merged) {
	if m.tasks > 0 {
		a.Log.Info("Binding contexts from are dropped from queue", "count", m.tasks, "dropped", m.dropped,
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
