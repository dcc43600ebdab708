package run

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Task is events that wait to be handed to one hook in one run.
//
// A task that lets bindings go (unlocks is not empty) is a Synchronization. It may have no events at all:
// then no process is started, and the bindings are let go nevertheless.
type Task struct {
	runner *Runner
	// current is the hook as it is now. It changes when hooks are loaded anew, but not while the hook is running.
	current atomic.Pointer[hook.Hook]
	queue   string
	// kind and binding are those of the first event; logs and metrics keep them over merges.
	kind    event.Type
	binding string
	group   string

	// events are what the hook will be told, in order. Of neighbours with the same group only the last is here.
	events []event.Event
	// unlocks are the kubernetes bindings whose events a success lets through.
	unlocks []int
	// mayFail is true when every event may be lost by a failed run.
	mayFail bool

	// merged and dropped count the tasks taken over, and the contexts that groups made superfluous, since
	// the last run.
	merged, dropped int

	// review is set for tasks that Answer runs, and outputs is what the hook then wrote.
	review  *Review
	outputs Outputs

	// origins are the traces of the events that went in, the first event's first. Empty when nobody follows them.
	origins []trace.SpanContext

	id int64
	// ids are those of the tasks that were taken over, the first few.
	ids      []int64
	attempts int
	waited   time.Duration
}

// Task returns a task for one event.
func (r *Runner) Task(ev event.Event) *Task {
	b := ev.Binding()
	t := &Task{
		runner: r, queue: ev.Queue(), kind: ev.Type, binding: b.Name, group: b.Group,
		mayFail: ev.AllowFailure(), id: r.lastID.Add(1),
	}
	t.current.Store(ev.Hook)
	if ev.Type == event.Synchronization {
		t.unlocks = []int{ev.Index}
		if ev.Hook.Kubernetes[ev.Index].Initial != hook.InitialList {
			r.eventHappened(t, &ev)
			return t
		}
	}
	t.events = []event.Event{ev}
	r.eventHappened(t, &t.events[0])
	return t
}

// Queue is the name of the queue that the task belongs to.
func (t *Task) Queue() string { return t.queue }

// Hook is the hook that the task runs.
func (t *Task) Hook() *hook.Hook { return t.current.Load() }

// EventType and Binding are those of its first event.
func (t *Task) EventType() string { return t.kind.String() }
func (t *Task) Binding() string   { return t.binding }

func (t *Task) synchronizes() bool { return len(t.unlocks) > 0 }

// Absorb takes over the events of the task directly behind, if one run may tell the hook of both.
func (t *Task) Absorb(next *Task) bool {
	if next.Hook() != t.Hook() || t.kind == event.Startup || next.kind == event.Startup || len(t.events) == 0 {
		return false
	}
	if t.synchronizes() || next.synchronizes() {
		// Synchronizations are told one by one, but those of a group are one.
		if !t.synchronizes() || !next.synchronizes() || t.group == "" || t.group != next.group {
			return false
		}
	}
	if limit := t.runner.contextsPerRun(t.Hook()); limit > 0 && len(t.events)+len(next.events)-overlap(t.events, next.events) > limit {
		return false
	}
	over := overlap(t.events, next.events)
	t.events = append(t.events[:len(t.events)-over], next.events...)
	t.unlocks = append(t.unlocks, next.unlocks...)
	t.mayFail = t.mayFail && next.mayFail
	if len(t.origins) <= maxLinks {
		t.origins = append(t.origins, next.origins...)
	}
	t.merged += 1 + next.merged
	t.ids = append(t.ids, append([]int64{next.id}, next.ids...)...)
	t.ids = t.ids[:min(len(t.ids), maxIDs)]
	t.dropped += over + next.dropped
	return true
}

// overlap is the number of events at the end of a (0 or 1) that the beginning of b makes superfluous.
func overlap(a, b []event.Event) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	if group := a[len(a)-1].Binding().Group; group != "" && group == b[0].Binding().Group {
		return 1
	}
	return 0
}

// Ready waits for the hook's rate limit.
func (t *Task) Ready(ctx context.Context) error { return t.runner.wait(ctx, t.Hook()) }

// Waited is told how long the task has waited in its queue since it came, or since its last failure.
func (t *Task) Waited(d time.Duration) { t.waited = d }

// Run runs the hook once, as it is now. If the hook has gone there is nothing to do.
func (t *Task) Run(ctx context.Context) error {
	if t.review == nil {
		leave, wanted, err := t.runner.succession.enter(ctx, t)
		if err != nil || !wanted {
			return err
		}
		defer leave()
	}
	t.attempts++
	return t.runner.run(ctx, t)
}

// String describes the task for queue dumps.
func (t *Task) String() string {
	parts := []string{"HookRun", t.queueLabel(), t.kind.String(), t.Hook().Name}
	if t.group != "" {
		parts = append(parts, "group="+t.group)
	}
	if t.kind != event.Startup {
		parts = append(parts, t.binding)
	}
	return strings.Join(parts, ":")
}

// queueLabel and bindingLabel are empty for start-up runs, as logs and metrics have always had it.
func (t *Task) queueLabel() string {
	if t.kind == event.Startup {
		return ""
	}
	return t.queue
}

func (t *Task) bindingLabel() string {
	if t.kind == event.Startup {
		return ""
	}
	return t.binding
}

// LogFields identify the task in a log record.
func (t *Task) LogFields() []any {
	return []any{
		"hook", t.Hook().Name, "binding", t.bindingLabel(), "event", t.kind.String(),
		"queue", t.queueLabel(), "task", "HookRun", "task.id", t.ID(),
	}
}

// maxIDs bounds how many events a record of a run names.
const maxIDs = 50

// eventIDs are the ids under which the events of the task were queued, as event.id of log records.
func (t *Task) eventIDs() string {
	text := t.ID()
	for _, id := range t.ids {
		text += "," + strconv.FormatInt(id, 10)
	}
	return text
}

// ID identifies the task in log records.
func (t *Task) ID() string { return strconv.FormatInt(t.id, 10) }
