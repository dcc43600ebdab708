package app

import (
	"context"
	"fmt"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// task is a run in the eyes of a queue.
type task struct{ *run.Task }

var _ queue.Waiter = task{}

func (t task) Absorb(behind queue.Task) bool {
	next, ok := behind.(task)
	return ok && t.Task.Absorb(next.Task)
}

// task makes a task of an event.
func (op *operator) task(ev event.Event) task { return task{op.runner.Task(ev)} }

// queueEvent makes a task of an event and puts it into its queue.
func (op *operator) queueEvent(ev event.Event) {
	t := op.task(ev)
	op.log.Info("queue task", "event.id", t.ID(), "hook", ev.Hook.Name, "binding", ev.Type.String(), "queue", t.Queue(), "name", "HookRun")
	op.queues.Add(t.Queue(), t)
}

// tick queues a run for every enabled schedule with this crontab, in the order of hooks and bindings.
func (op *operator) tick(crontab string, _ time.Time) {
	for _, h := range op.all() {
		if !op.isTicking(h) {
			continue
		}
		for i, s := range h.Schedules {
			if s.Crontab == crontab {
				op.queueEvent(event.Event{Type: event.Tick, Hook: h, Index: i})
			}
		}
	}
}

// sink takes what comes out of watching.
type sink struct{ *operator }

func (s sink) Event(ev event.Event)                 { s.queueEvent(ev) }
func (s sink) Keep(b []byte) event.Payload          { return s.spool.Put(b) }
func (s sink) Objects(h *hook.Hook, index, n int)   { s.meter.Objects(h, index, n) }
func (s sink) FilterFailed(h *hook.Hook, index int) { s.meter.FilterFailed(h, index) }

func (op *operator) failed(_ string, t queue.Task, failures int, err error, delay time.Duration) {
	var fields []any
	if t, ok := t.(task); ok {
		fields = t.LogFields()
	}
	op.log.Error("Hook failed. Will retry after delay.", append(fields, "failedCount", failures, "delay", delay.String(), "error", err.Error())...)
}

func (op *operator) panicked(name string, t queue.Task, reason any, stack []byte) {
	op.log.Warn("panic recovered in TaskQueue Start", "queue", name, "task_type", t.String(),
		"error", fmt.Sprint(reason), "stack", string(stack))
}

// step is a task of our own in a queue: something to do once everything before it is done.
type step struct {
	name string
	do   func()
}

func (s step) Ready(ctx context.Context) error { return ctx.Err() }
func (s step) Run(context.Context) error       { s.do(); return nil }
func (s step) Absorb(queue.Task) bool          { return false }
func (s step) String() string                  { return s.name }

func (s *hookStep) Ready(ctx context.Context) error { return ctx.Err() }
func (s *hookStep) Run(context.Context) error       { s.do(s.hook, s.index); return nil }
func (s *hookStep) Absorb(queue.Task) bool          { return false }
func (s *hookStep) String() string                  { return s.name }

// hookSeries are how many series of metrics each hook has.
func (op *operator) hookSeries() map[string]int {
	if op.hookMetrics == nil {
		return nil
	}
	return op.hookMetrics.Series()
}

// tasks counts the tasks in all queues, for a scrape.
func (op *operator) tasks() []telemetry.QueueTasks {
	if op.queues == nil {
		return nil
	}
	var all []telemetry.QueueTasks
	op.queues.Visit(func(name string, tasks []queue.Task) {
		q := telemetry.QueueTasks{Queue: name, Tasks: len(tasks), Hooks: map[string]int{}}
		for _, t := range tasks {
			if t, ok := t.(task); ok {
				q.Hooks[t.Hook().Name]++
			}
		}
		all = append(all, q)
	})
	return all
}
