package run

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Task is events that wait to be handed to one hook in one run. Many may have to wait, so what few of them need is apart.
//
// A task that lets bindings go is a Synchronization. It may have no events at all: then no process is started, and the
// bindings are let go nevertheless.
type Task struct {
	runner *Runner
	// first is the address of the first event that went in; logs and metrics keep it over merges.
	first address
	id    int64
	// events are what the hook will be told, in order. Of neighbours with the same group only the last is here.
	events event.Log
	more   *more
}

// address is a binding of a hook: event.Event without what happened, and smaller.
type address struct {
	hook  *hook.Hook
	kind  uint8
	index int32
}

func addressOf(ev event.Event) address { return address{ev.Hook, uint8(ev.Type), int32(ev.Index)} }

func (a address) event() event.Event {
	return event.Event{Type: event.Type(a.kind), Hook: a.hook, Index: int(a.index)}
}

// more is what few tasks have that wait: those that take over others, that have run, or that are no changes and ticks.
type more struct {
	// unlocks are the kubernetes bindings whose events a success lets through.
	unlocks []int
	// must is true when an event of a task that was taken over must not be lost by a failed run.
	must bool

	// merged and dropped count the tasks taken over, and the contexts that groups made superfluous, since
	// the last run.
	merged, dropped int

	// review is set for tasks that Answer runs.
	review *answered

	// origins are the traces of the events that went in, the first event's first. Empty when nobody follows them.
	origins []trace.SpanContext

	// ids are those of the tasks that were taken over, the first few.
	ids      []int64
	attempts int
	waited   time.Duration
}

// Task returns a task for one event.
func (r *Runner) Task(ev event.Event) *Task {
	t := &Task{runner: r, id: r.lastID.Add(1), first: addressOf(ev)}
	r.eventHappened(t, &ev)
	if ev.Type == event.Synchronization {
		t.rest().unlocks = []int{ev.Index}
		if ev.Hook.Kubernetes[ev.Index].Initial != hook.InitialList {
			return t
		}
	}
	t.events = event.LogOf(ev)
	return t
}

// rest makes room for what few tasks have. known is for those who only look.
func (t *Task) rest() *more {
	if t.more == nil {
		t.more = new(more)
	}
	return t.more
}

func (t *Task) known() more {
	if t.more == nil {
		return more{}
	}
	return *t.more
}

// Queue is the name of the queue that the task belongs to.
func (t *Task) Queue() string {
	first := t.first.event()
	return first.Queue()
}

// Hook is the hook that the task runs.
func (t *Task) Hook() *hook.Hook { return t.first.hook }

func (t *Task) kind() event.Type { return event.Type(t.first.kind) }

// EventType and Binding are those of its first event.
func (t *Task) EventType() string { return t.kind().String() }
func (t *Task) Binding() string   { return t.binding().Name }

func (t *Task) binding() hook.Binding {
	first := t.first.event()
	return first.Binding()
}

func (t *Task) synchronizes() bool { return t.more != nil && len(t.more.unlocks) > 0 }

// mayFail is true when every event may be lost by a failed run.
func (t *Task) mayFail() bool {
	first := t.first.event()
	return first.AllowFailure() && (t.more == nil || !t.more.must)
}

// Absorb takes over the events of the task directly behind, if one run may tell the hook of both.
func (t *Task) Absorb(next *Task) bool {
	if next.Hook() != t.Hook() || t.kind() == event.Startup || next.kind() == event.Startup || t.events.Len() == 0 {
		return false
	}
	if t.synchronizes() || next.synchronizes() {
		// Synchronizations are told one by one, but those of a group are one.
		if group := t.binding().Group; !t.synchronizes() || !next.synchronizes() || group == "" || group != next.binding().Group {
			return false
		}
	}
	covered := t.coveredBy(next)
	over := 0
	if covered {
		over = 1
	}
	if limit := t.runner.contextsPerRun(t.Hook()); limit > 0 && t.events.Len()+next.events.Len()-over > limit {
		return false
	}
	if covered {
		t.events.DropLast()
	}
	t.events.Join(next.events)
	m, behind := t.rest(), next.known()
	m.unlocks = append(m.unlocks, behind.unlocks...)
	m.must = m.must || !next.mayFail()
	if len(m.origins) <= maxLinks {
		m.origins = append(m.origins, behind.origins...)
	}
	m.merged += 1 + behind.merged
	if len(m.ids) < maxIDs {
		m.ids = append(append(m.ids, next.id), behind.ids...)
		m.ids = m.ids[:min(len(m.ids), maxIDs)]
	}
	m.dropped += over + behind.dropped
	return true
}

// coveredBy tells that the first event of next makes the last one here superfluous.
func (t *Task) coveredBy(next *Task) bool {
	if t.events.Len() == 0 || next.events.Len() == 0 {
		return false
	}
	last, first := t.events.Last(t.Hook()), next.events.First(t.Hook())
	group := last.Binding().Group
	return group != "" && group == first.Binding().Group
}

// Ready waits for the hook's rate limit.
func (t *Task) Ready(ctx context.Context) error { return t.runner.wait(ctx, t.Hook()) }

// Waited is told how long the task has waited in its queue since it came, or since its last failure.
func (t *Task) Waited(d time.Duration) { t.rest().waited = d }

// Run runs the hook once. It does nothing for a hook that has been removed, and does not fail for one that is removed
// during the run: nothing is left to be retried.
func (t *Task) Run(ctx context.Context) (err error) {
	m := t.rest()
	if m.review != nil {
		m.attempts++
		return t.runner.run(ctx, t)
	}
	if !t.runner.hooks.enter(t.Hook()) {
		return nil
	}
	defer func() { // also after a panic
		if removed := t.runner.hooks.leave(t.Hook()); removed && err != nil && ctx.Err() == nil {
			t.runner.opts.Log.Warn("Hook failed; it is not retried because it was changed or removed", append(t.LogFields(), "error", err.Error())...)
			err = nil
		}
	}()
	m.attempts++
	return t.runner.run(ctx, t)
}

// String describes the task for queue dumps.
func (t *Task) String() string {
	b := t.binding()
	parts := []string{"HookRun", t.queueLabel(), t.EventType(), t.Hook().Name}
	if b.Group != "" {
		parts = append(parts, "group="+b.Group)
	}
	if t.kind() != event.Startup {
		parts = append(parts, b.Name)
	}
	return strings.Join(parts, ":")
}

// queueLabel and bindingLabel are empty for start-up runs, as logs and metrics have always had it.
func (t *Task) queueLabel() string {
	if t.kind() == event.Startup {
		return ""
	}
	return t.Queue()
}

func (t *Task) bindingLabel() string {
	if t.kind() == event.Startup {
		return ""
	}
	return t.Binding()
}

// LogFields identify the task in a log record.
func (t *Task) LogFields() []any {
	return []any{
		"hook", t.Hook().Name, "binding", t.bindingLabel(), "event", t.EventType(),
		"queue", t.queueLabel(), "task", "HookRun", "task.id", t.ID(),
	}
}

// maxIDs bounds how many events a record of a run names.
const maxIDs = 50

// eventIDs are the ids under which the events of the task were queued, as event.id of log records.
func (t *Task) eventIDs() string {
	text := t.ID()
	for _, id := range t.known().ids {
		text += "," + strconv.FormatInt(id, 10)
	}
	return text
}

// ID identifies the task in log records.
func (t *Task) ID() string { return strconv.FormatInt(t.id, 10) }

// runID identifies the attempt that is running: in the log, in the history of runs, and in the name of its directory.
func (t *Task) runID() string { return t.ID() + "-" + strconv.Itoa(t.known().attempts) }
