package run

import (
	"cmp"
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// Task is a list of events for one run of a hook. Many tasks may wait, so fields that few of them need are in extra.
//
// A task that unlocks bindings is a Synchronization. It may have no events: then it unlocks them without starting a process.
type Task struct {
	runner *Runner
	// first is the address of the first event; merging does not change it, nor what logs and metrics name.
	first address
	id    int64
	// events are in order. Of adjacent ones with the same group only the last is here.
	events event.Log
	// extra is nil until ensureExtra.
	extra *extra
}

// address is the binding of an event, in less memory than event.Event.
type address struct {
	hook *hook.Hook
	kind uint8
	// initial: all events of the task are initial.
	initial bool
	index   int32
}

func addressOf(ev event.Event) address {
	return address{ev.Hook, uint8(ev.Type), ev.Initial, int32(ev.Index)}
}

func (a address) event() event.Event {
	return event.Event{Type: event.Type(a.kind), Hook: a.hook, Index: int(a.index)}
}

// extra is the part of a task that merging, running, and events other than changes and ticks need.
type extra struct {
	// unlocks are the kubernetes bindings that a successful run unlocks.
	unlocks []int
	traits  traits
	// bytes is about the size of the objects of merged events.
	bytes int
	// most is the number of events up to which the task absorbs others, if it is not 0. Rest is what its run has left.
	most int
	rest *Task
	// queue replaces the queue of the first event, unless it is empty.
	queue  string
	merged merged
	// review is set for tasks that Answer runs.
	review *answered
	// marks has the Marker's mark of each event, in order, at most maxMarks.
	marks []any
	// keyValue is the value of which the key of the lane is a hash; empty if it is none. Only the hook gets it.
	keyValue string
	last     start
}

// merged counts the tasks that have joined a task.
type merged struct {
	// tasks, and the contexts that later ones of their group replaced, are counted since the last run.
	tasks, dropped int
	// ids are the ids of the first tasks.
	ids []int64
}

// start describes the attempt of a task that is next or in progress.
type start struct {
	// key is the key of the task's lane.
	key string
	// attempts counts the runs since the attempts began, runs all of them. run is the number of the last run.
	attempts, runs int
	run            uint64
	waited         time.Duration
}

// traits are facts about a task.
type traits uint8

const (
	// retried: a merged task must not lose its events when the run fails.
	retried traits = 1 << iota
	// refreshed: a requeue or a retried event is among the events: its object is read at the start of each attempt.
	refreshed
	// urgent: an event is not a change that has just happened: it is due now.
	urgent
	// replaces: the event takes the place of a Modified event of its object that waits.
	replaces
	// once: the task was triggered: one failure drops it.
	once
)

func (t *Task) is(what traits) bool { return t.readExtra().traits&what != 0 }

// mark adds a trait if it holds.
func (m *extra) mark(what traits, holds bool) {
	if holds {
		m.traits |= what
	}
}

// maxMarks is about the number of marks that a task keeps.
const maxMarks = 128

// Task returns a task for one event.
func (r *Runner) Task(ev event.Event) *Task {
	t := &Task{runner: r, id: r.lastID.Add(1), first: addressOf(ev)}
	if r.marker != nil {
		t.ensureExtra().marks = []any{r.marker.Mark(t, ev)}
	}
	if ev.Retried || ev.Watch == event.Requeued {
		m := t.ensureExtra()
		m.mark(urgent, true)
		m.mark(refreshed, ev.Refreshed())
	}
	if ev.Watch == event.Requeued {
		t.ensureExtra().queue = ev.Queue() // not the queue of the first Synchronization
	} else if ev.Type == event.Synchronization {
		t.ensureExtra().unlocks = []int{ev.Index}
		if ev.Hook.Kubernetes[ev.Index].Initial != hook.InitialList {
			return t
		}
	}
	if ev.Type == event.Change && ev.Watch == event.Modified && r.opts.Deferred.Full() {
		t.ensureExtra().mark(replaces, true)
	}
	if ev.KeyValue != "" {
		t.ensureExtra().keyValue = ev.KeyValue
	}
	ev.Key, ev.KeyValue = "", "" // the queue has it
	t.events = event.LogOf(ev)
	return t
}

// Trigger returns a task that a user has requested. It is of a queue, whatever the event's is. One failure of a Synchronization drops it.
func (r *Runner) Trigger(ev event.Event, queue string) *Task {
	t := r.Task(ev)
	m := t.ensureExtra()
	m.queue = queue
	m.mark(once, ev.Type == event.Synchronization)
	return t
}

// Events yields the events of the task.
func (t *Task) Events() iter.Seq[event.Event] { return t.events.All(t.Hook()) }

// Len counts the events of the task.
func (t *Task) Len() int { return t.events.Len() }

// Marks returns the marks of the first events.
func (t *Task) Marks() []any { return t.readExtra().marks }

// Answers reports whether the task answers a request.
func (t *Task) Answers() bool { return t.readExtra().review != nil }

func (t *Task) ensureExtra() *extra {
	if t.extra == nil {
		t.extra = new(extra)
	}
	return t.extra
}

// noExtra is the zero value that most tasks share; it is only read.
var noExtra extra

func (t *Task) readExtra() *extra { return cmp.Or(t.extra, &noExtra) }

// Queue is the name of the task's queue.
func (t *Task) Queue() string {
	if replaced := t.readExtra().queue; replaced != "" {
		return replaced
	}
	first := t.first.event()
	return first.Queue()
}

// Key is the key of the task's lane once it has started.
func (t *Task) Key() string { return t.readExtra().last.key }

// Hook is the hook that the task runs.
func (t *Task) Hook() *hook.Hook { return t.first.hook }

// Type is the type of the first event.
func (t *Task) Type() event.Type { return event.Type(t.first.kind) }

// Number is the number of the task's last run among all of the operator.
func (t *Task) Number() uint64 { return t.readExtra().last.run }

// KeyValue is the value of which the key of the task's lane is a hash; empty if it is none.
func (t *Task) KeyValue() string { return t.readExtra().keyValue }

// Removed reports whether the hook of the task has been removed.
func (t *Task) Removed() bool { return t.runner.hooks.removed(t.Hook()) }

// EventType and Binding describe its first event.
func (t *Task) EventType() string { return t.Type().String() }
func (t *Task) Binding() string   { return t.bound().Name }

func (t *Task) bound() hook.Bound { return t.Hook().At(t.address()) }

func (t *Task) address() hook.Address {
	return hook.Address{Kind: t.Type().Kind(), Index: int(t.first.index)}
}

func (t *Task) synchronizes() bool { return t.Type() == event.Synchronization }

// mayFail reports whether a failed run may lose all events: their bindings allow failure.
func (t *Task) mayFail() bool {
	return t.bound().AllowFailure && !t.is(retried)
}

// Policy is the effective policy of the retries of the task.
func (t *Task) Policy() hook.Policy {
	if t.is(once) {
		return hook.Policy{Given: true, Limit: 1, Exhausted: hook.Drop}
	}
	return t.Hook().Policy(t.address(), t.runner.opts.Retry.Min, t.runner.opts.Retry.Max)
}

// samePolicy reports whether both tasks have no policy, or the same one.
func (t *Task) samePolicy(next *Task) bool {
	a, b := t.Policy(), next.Policy()
	return a.Given == b.Given && (!a.Given || a == b)
}

// Owner is the name of the hook.
func (t *Task) Owner() string { return t.Hook().Name }

// Initial reports whether all events are of initial objects.
func (t *Task) Initial() bool { return t.first.initial }

// Absorb merges the events of the next task in the queue, if one run may deliver both.
func (t *Task) Absorb(next *Task) bool {
	if next.Hook() != t.Hook() || t.Type() == event.Startup || next.Type() == event.Startup || t.events.Len() == 0 || !t.samePolicy(next) {
		return false
	}
	if t.synchronizes() || next.synchronizes() {
		// Each Synchronization has a run of its own, but the bindings of a group share one.
		if group := t.bound().Group; !t.synchronizes() || !next.synchronizes() || group == "" || group != next.bound().Group {
			return false
		}
	}
	covered := t.coveredBy(next)
	over := 0
	if covered {
		over = 1
	}
	contexts := t.events.Len() + next.events.Len() - over
	if limit := t.Hook().Settings.ContextsPerRun; limit > 0 && contexts > limit ||
		t.readExtra().most > 0 && contexts > t.extra.most {
		return false
	}
	if covered {
		t.events.DropLast()
	}
	t.events.Join(next.events)
	m, behind := t.ensureExtra(), next.readExtra()
	m.unlocks = append(m.unlocks, behind.unlocks...)
	m.mark(retried, !next.mayFail())
	m.mark(refreshed, next.is(refreshed))
	m.mark(urgent, t.isUrgent() || next.isUrgent())
	m.bytes += next.size()
	t.first.initial = t.first.initial && next.first.initial
	if len(m.marks) < maxMarks {
		m.marks = append(m.marks, behind.marks...)
	}
	m.merged.tasks += 1 + behind.merged.tasks
	m.merged.dropped += over + behind.merged.dropped
	if ids := m.merged.ids; len(ids) < maxIDs {
		ids = append(append(ids, next.id), behind.merged.ids...)
		m.merged.ids = ids[:min(len(ids), maxIDs)]
	}
	return true
}

// Collects reports whether a later run may deliver more events than these, which are changes: the limits of contexts and bytes are not
// reached, and no event is due now.
func (t *Task) Collects() bool {
	limit, most := t.Hook().Settings.ContextsPerRun, t.runner.opts.MaxContextBytes
	return !t.isUrgent() && (limit == 0 || t.events.Len() < limit) && (most == 0 || t.readExtra().bytes < most)
}

// isUrgent reports whether an event is not a change that has just happened: it was scheduled or requested, or its object is an initial one.
func (t *Task) isUrgent() bool {
	return t.Type() != event.Change || t.first.initial || t.is(urgent)
}

// size is about the number of bytes of the objects in the events.
func (t *Task) size() (n int) {
	if known := t.readExtra().bytes; known > 0 {
		return known
	}
	for ev := range t.Events() {
		n += ev.Object.Size()
	}
	return n
}

// coveredBy reports whether the first event of next replaces the last one of t: they have the same group.
func (t *Task) coveredBy(next *Task) bool {
	if t.events.Len() == 0 || next.events.Len() == 0 {
		return false
	}
	last, first := t.events.Last(t.Hook()), next.events.First(t.Hook())
	group := last.Binding().Group
	return group != "" && group == first.Binding().Group
}

// Ready reserves a token of the hook's rate limit, and returns the time until it is there. A task that Run would drop must not hold up
// its queue.
func (t *Task) Ready() (wait time.Duration, cancel func()) {
	limit := t.runner.hooks.limit(t.Hook())
	if limit == nil || t.runner.hooks.removed(t.Hook()) {
		return 0, nil
	}
	token := limit.Reserve()
	return token.Delay(), token.Cancel
}

// Starting records the key of the task's lane, how often it has failed since its attempts began, and how long it has waited since it was
// queued, or since its last failure.
func (t *Task) Starting(key string, failures int, waited time.Duration) {
	last := &t.ensureExtra().last
	last.key, last.attempts, last.waited = key, failures, waited
}

// Run runs the hook once. It does nothing for a hook that has been removed, and does not fail for one that is removed
// during the run: nothing is left to be retried.
func (t *Task) Run(ctx context.Context) (err error) {
	m := t.ensureExtra()
	if m.review != nil {
		return t.runner.run(ctx, t)
	}
	if !t.runner.hooks.removed(t.Hook()) {
		for _, c := range t.runner.hooks.companions(t.Hook(), false) {
			if w, is := c.(Waiter); is {
				if err := w.Await(t); err != nil {
					return err
				}
			}
		}
	}
	if !t.runner.hooks.enter(t.Hook()) {
		t.Forget()
		return nil
	}
	defer func() { // also after a panic
		if removed := t.runner.hooks.leave(t.Hook()); removed && err != nil && ctx.Err() == nil {
			t.runner.opts.Log.Warn("Hook failed; it is not retried because it was changed, removed or paused",
				append(t.LogFields(), "error", err.Error())...)
			t.Forget()
			err = nil
		}
	}()
	return t.runner.run(ctx, t)
}

// Count counts the events of an object of a binding in a task that does not run. It visits at most so many events, and returns how many.
func (t *Task) Count(index int, namespace, name string, most int) (events, visited int) {
	if t.Type().Kind() != hook.OnKubernetes {
		return 0, 0
	}
	for ev := range t.Events() {
		if visited == most {
			break
		}
		visited++
		if ev.Type == event.Change && ev.Index == index && ev.Object.Name == name && ev.Object.Namespace == namespace {
			events++
		}
	}
	return events, visited
}

// String describes the task for queue dumps.
func (t *Task) String() string {
	b := t.bound()
	_, queue := t.Labels()
	parts := []string{"HookRun", queue, t.EventType(), t.Hook().Name}
	if b.Group != "" {
		parts = append(parts, "group="+b.Group)
	}
	if t.Type() != event.Startup {
		parts = append(parts, b.Name)
	}
	return strings.Join(parts, ":")
}

// Labels returns the names of the binding and the queue, which are empty for start-up runs, as in upstream's logs and metrics.
func (t *Task) Labels() (binding, queue string) {
	if t.Type() == event.Startup {
		return "", ""
	}
	return t.Binding(), t.Queue()
}

// LogFields identify the task in a log record.
func (t *Task) LogFields() []any {
	binding, queue := t.Labels()
	return []any{"hook", t.Hook().Name, "binding", binding, "event", t.EventType(), "queue", queue, "task", "HookRun", "task.id", t.ID()}
}

// ID identifies the task in log records.
func (t *Task) ID() string { return strconv.FormatInt(t.id, 10) }

// RunID identifies the attempt that is running: in the log, in the history of runs, and in the name of its directory.
func (t *Task) RunID() string { return t.ID() + "-" + strconv.Itoa(t.readExtra().last.runs) }
