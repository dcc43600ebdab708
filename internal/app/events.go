package app

import (
	"fmt"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/telemetry"
)

// hookMeter is the Meter of the lifecycle.
type hookMeter struct {
	*telemetry.Metrics
	op *operator
}

func (m hookMeter) SetHooks(hooks []*hook.Hook) { m.op.meter.SetHooks(hooks) }
func (m hookMeter) HookRemoved(name string)     { m.op.hookMetrics.Forget(name) }

// sink takes what comes out of watching.
type sink struct{ *operator }

func (s sink) Event(ev event.Event)                 { s.life.Queue(ev) }
func (s sink) Keep(b []byte) event.Payload          { return s.spool.Put(b) }
func (s sink) Objects(h *hook.Hook, index, n int)   { s.meter.Objects(h, index, n) }
func (s sink) FilterFailed(h *hook.Hook, index int) { s.meter.FilterFailed(h, index) }
func (s sink) KeyFailed(h *hook.Hook, index int)    { s.meter.KeyFailed(h, index) }

func (op *operator) failed(f queue.Failed) {
	var fields []any
	if t, ok := f.Task.(lifecycle.Task); ok {
		fields = t.LogFields()
	}
	if f.Key != "" {
		fields = append(fields, "key", f.Key)
	}
	op.log.Error("Hook failed. Will retry after delay.", append(fields, "failedCount", f.Failures, "delay", f.Delay.String(), "error", f.Err.Error())...)
}

// exhausted passes a task on that has no attempt left.
func (op *operator) exhausted(f queue.Failed) { op.life.Exhausted(f) }

// dropped logs a parked context that is dropped.
func (op *operator) dropped(ev event.Event, why pending.Reason) {
	op.log.Info("A parked context is dropped", "hook", ev.Hook.Name, "binding", ev.Binding().Name, "namespace", ev.Object.Namespace, "name", ev.Object.Name,
		"reason", string(why))
}

func (op *operator) panicked(name string, t queue.Task, reason any, stack []byte) {
	op.log.Warn("panic recovered in TaskQueue Start", "queue", name, "task_type", t.String(),
		"error", fmt.Sprint(reason), "stack", string(stack))
}

// hookSeries are how many series of metrics each hook has.
func (op *operator) hookSeries() map[string]int { return op.hookMetrics.Series() }

// tasks counts the tasks in all queues, for a scrape.
func (op *operator) tasks() []telemetry.QueueTasks {
	var all []telemetry.QueueTasks
	op.queues.Visit(func(name string, tasks []queue.Task) {
		q := telemetry.QueueTasks{Queue: name, Tasks: len(tasks), Hooks: map[string]int{}}
		for _, t := range tasks {
			if t, ok := t.(lifecycle.Task); ok {
				q.Hooks[t.Hook().Name]++
			}
		}
		all = append(all, q)
	})
	return all
}
