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
	binding, queue := t.Labels()
	a := &Attempt{Task: t, Log: r.opts.Log.With(t.LogFields()...), Record: noRecord{}, Unread: true, Report: Report{
		Hook: t.Hook(), Binding: binding, Queue: queue, Key: last.key, Waited: last.waited, Attempt: last.attempts,
		Merged: m.merged.tasks,
	}}
	if t.is(refreshed) {
		t.refresh()
	}
	a.started = time.Now()
	a.companions = r.hooks.companions(t.Hook(), m.review != nil)
	err := each(a, nil, func(c Beginner, _ error) error { ctx = c.Begin(ctx, a); return nil })
	if m.merged.tasks > 0 {
		a.logMerge(&m.merged)
	}
	if t.events.Len() > 0 {
		a.Log.Info("Execute hook", "event.id", t.eventIDs(), "run", t.RunID())
	}
	return ctx, a, err
}

func (a *Attempt) logMerge(m *merged) {
	a.Log.Info("Binding contexts from are dropped from queue", "count", m.tasks, "dropped", m.dropped,
		"message", fmt.Sprintf("contexts of %d more tasks go into one run, %d of them are covered by their group", m.tasks, m.dropped))
	m.tasks, m.dropped = 0, 0
}

// refresh makes requeues and retried events current.
func (t *Task) refresh() {
	var events event.Log
	for ev := range t.Events() {
		if t.runner.opts.Deferred.Refresh(&ev) {
			events.Add(ev)
		}
	}
	t.events = events
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
