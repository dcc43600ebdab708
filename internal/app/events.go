package app

import (
	"fmt"
	"strings"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/lifecycle"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/telemetry/kubeevent"
)

// hookMeter is the Meter of the lifecycle.
type hookMeter struct {
	*meter
	op *operator
}

func (m hookMeter) HookRemoved(name string) { m.op.effects.Metrics.Forget(name) }

// sink takes what comes out of watching.
type sink struct {
	*operator
	*meter // it has Objects
}

func (s sink) Event(ev event.Event)                         { s.life.Queue(ev) }
func (s sink) Keep(b []byte) event.Payload                  { return s.spool.Put(b) }
func (s sink) Gone(h *hook.Hook, index int, o event.Object) { s.life.ObjectGone(h, index, o) }

func (op *operator) failed(f queue.Failed) {
	var fields []any
	if t, ok := f.Task.(lifecycle.Task); ok {
		fields = t.LogFields()
		if t.EventType() == event.Startup.String() {
			op.health.StartupFailed(t.Hook())
		}
	}
	if f.Key != "" {
		fields = append(fields, "key", f.Key)
	}
	op.log.Error("Hook failed. Will retry after delay.",
		append(fields, "failedCount", f.Failures, "delay", f.Delay.String(), "error", f.Err.Error())...)
}

// exhausted passes a task on that has no attempt left.
func (op *operator) exhausted(f queue.Failed) { op.life.Exhausted(f) }

// gaveUp reports a task that has no attempt left to metrics and Events.
func (op *operator) gaveUp(e lifecycle.Exhausted) {
	fate := "dropped"
	if e.Parked {
		fate = "parked"
		op.meter.TaskParked(e.Hook.Name, e.Binding, e.Queue)
	}
	end, reason := "has no attempt left after", run.PublicReason(e.Err)
	if run.GaveUp(e.Err) != "" {
		end = "gave up after"
	}
	note := func(about string) string {
		attempts := "1 attempt"
		if e.Attempts != 1 {
			attempts = fmt.Sprintf("%d attempts", e.Attempts)
		}
		return fmt.Sprintf("Hook %q %s %s%s, its contexts are %s: %s", e.Hook.Name, end, attempts, about, fate, reason)
	}
	o := e.Object
	if o == nil {
		op.events.Exhausted(e.Hook.Name, note(""))
		return
	}
	op.events.Exhausted(e.Hook.Name, note(fmt.Sprintf(" for %s %s", o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))))
	op.events.ExhaustedFor(kubeevent.Reference{APIVersion: e.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, note(""))
}

// dropReasons are the values of the metric's label.
var dropReasons = map[pending.Reason]string{pending.Superseded: "superseded", pending.BeyondMax: "limit", pending.OnRequest: "request",
	pending.HookGone: "reload"}

// dropped counts and logs a parked context that is dropped.
func (op *operator) dropped(ev event.Event, why pending.Reason) {
	op.meter.ParkedContextDropped(ev.Hook.Name, ev.Binding().Name, ev.Queue(), dropReasons[why])
	op.log.Info("A parked context is dropped", "hook", ev.Hook.Name, "binding", ev.Binding().Name, "namespace", ev.Object.Namespace,
		"name", ev.Object.Name,
		"reason", string(why))
}

// replaced counts a waiting event that was dropped for a later one of its object.
func (op *operator) replaced(ev *event.Event) {
	op.meter.EventReplaced(ev.Hook.Name, ev.Binding().Name, ev.Queue())
}

func (op *operator) panicked(name string, t queue.Task, reason any, stack []byte) {
	op.log.Warn("panic recovered in TaskQueue Start", "queue", name, "task_type", fmt.Sprint(t),
		"error", fmt.Sprint(reason), "stack", string(stack))
}
