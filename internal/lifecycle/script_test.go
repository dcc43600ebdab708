package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/test/golden"
)

// TestScripts runs the files in testdata. A file has blocks, with an empty line between them: commands, and below the dashes what happened.
// The first block declares hooks and calls "start". Commands are:
//
//	binding HOOK/NAME [OPTION=VALUE...]   a kubernetes binding: queue, key, width, group, limit, min, max, exhausted, allow, perrun,
//	                                       finalizer
//	schedule HOOK/NAME [OPTION=VALUE...]  a schedule binding
//	retry HOOK [OPTION=VALUE...]          the hook's own policy: limit, min, max, exhausted
//	start [parked=N] [runs=N]             begin, with these bounds
//	object HOOK/NAME a/x [KEY]            an object exists; "gone" ends it
//	added|modified|deleted HOOK/NAME a/x  a change of it
//	deleting HOOK/NAME a/x                it is being deleted, and has the finalizer
//	sync HOOK/NAME                        a Synchronization is next in its queue
//	tick HOOK/NAME                        a schedule is due
//	ok RUN [RESULT]                       the run succeeds, having written a result file
//	bad RUN [RESULT]                      the run fails
//	half RUN [RESULT]                     the process succeeds, but one of its operations fails
//	wait 5s                               let time pass
//	parked, requeues, queues              show them
//	parked-retry ID..., parked-drop ID... act
//	retry-queue Q/K, skip Q/K, pause Q, resume Q, trigger H/B [a/x]
//	remove HOOK                           a reload removes the hook
//
// RUN is the hook, with "[KEY]" if there is one, as in the first word of its record. Without jitter; the time is not real.
func TestScripts(t *testing.T) {
	golden.Scripts(t, "testdata/*.txt", func(t *testing.T, script string) string {
		var got string
		synctest.Test(t, func(t *testing.T) { got = runScript(t, script) })
		return got
	})
}

func runScript(t *testing.T, text string) string {
	w := &world{t: t, began: time.Now(), hooks: map[string]*hook.Hook{}, objects: map[string]string{}, gates: map[string]chan error{},
		results: map[string]string{}}
	defer func() { w.stop() }()
	return golden.Blocks(text, func(words []string) {
		w.do(words)
		synctest.Wait()
		w.sort()
	}, w.happened)
}

// world is a Lifecycle whose hooks are in their last state, with a fake of the cluster, and of processes.
type world struct {
	noEffects
	t     *testing.T
	began time.Time
	order []*hook.Hook
	hooks map[string]*hook.Hook
	life  *Lifecycle
	stop  func()

	mu      sync.Mutex // guards what follows
	log     []string
	sorted  int
	objects map[string]string
	// gates end the runs; results are what they write.
	gates   map[string]chan error
	results map[string]string
	// operationFails makes the operations of the next run fail.
	operationFails bool
}

// Apply fails if the script says so.
func (w *world) Apply(context.Context, *slog.Logger, *hook.Hook, run.Outputs, *run.Turn, run.Identify) ([]run.Change, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.operationFails = false }()
	if w.operationFails {
		return nil, errors.New("no such object")
	}
	return nil, nil
}

// ReadWhole implements run.WholeEffects: Apply gets also the runs that request nothing.
func (*world) ReadWhole() {}

func (w *world) record(text string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Since(w.began).String()+" "+fmt.Sprintf(text, args...)+"\n")
}

// sort sorts the new records of each moment: lanes have no order among them.
func (w *world) sort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.log[w.sorted:], func(a, b string) int { return cmp.Or(moment(w.t, a, b), cmp.Compare(a, b)) })
	w.sorted = len(w.log)
}

// happened returns the new records.
func (w *world) happened() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.log, "")
	w.log, w.sorted = nil, 0
	return all
}

func moment(t *testing.T, a, b string) int {
	at, _, _ := strings.Cut(a, " ")
	bt, _, _ := strings.Cut(b, " ")
	x, err := time.ParseDuration(at)
	y, err2 := time.ParseDuration(bt)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return int(x - y)
}

func (w *world) hook(name string) *hook.Hook {
	if w.hooks[name] == nil {
		w.hooks[name] = &hook.Hook{Name: name}
		w.order = append(w.order, w.hooks[name])
	}
	return w.hooks[name]
}

// find returns the binding HOOK/NAME.
func (w *world) find(name string) (h *hook.Hook, a hook.Address) {
	owner, binding, _ := strings.Cut(name, "/")
	h = w.hooks[owner]
	if h == nil {
		w.t.Fatalf("no hook %q", owner)
	}
	for a, b := range h.Bindings() {
		if b.Name == binding {
			return h, a
		}
	}
	w.t.Fatalf("no binding %q", name)
	return nil, a
}

type options map[string]string

func optionsOf(words []string) options {
	o := options{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		o[name] = value
	}
	return o
}

func (o options) number(name string) int { n, _ := strconv.Atoi(o[name]); return n }

func (o options) retry() *hook.Retry {
	r := &hook.Retry{Exhausted: hook.Exhausted(o["exhausted"])}
	for name, to := range map[string]**time.Duration{"min": &r.MinDelay, "max": &r.MaxDelay} {
		if text, ok := o[name]; ok {
			d, _ := time.ParseDuration(text)
			*to = &d
		}
	}
	if _, ok := o["limit"]; ok {
		n := o.number("limit")
		r.Limit = &n
	}
	if *r == (hook.Retry{}) {
		return nil
	}
	return r
}

func (w *world) declare(kind, name string, o options) {
	owner, binding, _ := strings.Cut(name, "/")
	h := w.hook(owner)
	_, allow := o["allow"]
	b := hook.Binding{Name: binding, Group: o["group"]}
	queue := hook.MainQueue
	if o["queue"] != "" {
		queue = o["queue"]
	}
	switch kind {
	case "binding":
		h.Kubernetes = append(h.Kubernetes, hook.Kubernetes{
			Binding: b, Queue: queue, Lanes: hook.Lanes{Key: hook.Key(o["key"]), Concurrency: o.number("width")}, AllowFailure: allow,
			Retry:                  o.retry(),
			WaitForSynchronization: true, Added: true, Modified: true, Deleted: true, Finalizer: o["finalizer"],
		})
		h.Settings.ContextsPerRun = max(h.Settings.ContextsPerRun, o.number("perrun"))
	case "schedule":
		h.Schedules = append(h.Schedules, hook.Schedule{Binding: b, Queue: queue, AllowFailure: allow, Retry: o.retry()})
	case "retry":
		h.Settings.Retry = o.retry()
	}
}

func (w *world) start(o options) {
	files, err := workspace.Open(workspace.Options{Dir: w.t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	queues := queue.NewSet(queue.Options{
		Backoff: queue.DefaultBackoff(5*time.Second, 5*time.Second), Random: func() float64 { return 0.5 }, MaxRuns: o.number("runs"),
		OnExhausted: func(f queue.Failed) { w.life.Exhausted(f) },
	})
	later := pending.New(pending.Options{
		Limit: o.number("parked"), Objects: cluster{world: w}, Random: func() float64 { return 0.5 },
		Dropped: func(ev event.Event, why pending.Reason) {
			w.record("dropped %s %s%s: %s", ev.Hook.Name, ev.Binding().Name, objectText(ev.Object), why)
		},
	})
	w.life = &Lifecycle{inbox: make(chan func()), ended: make(chan struct{}), nudge: make(chan struct{}, 1), ctx: w.t.Context(), o: Options{
		Queues: queues, Log: log, Watcher: cluster{world: w}, Objects: cluster{world: w},
		Runner: run.New(run.Options{
			Executor:  w,
			Snapshots: cluster{world: w}, Effects: w, Workspace: files, Log: log,
			Retry: run.Retry{Min: 5 * time.Second, Max: 40 * time.Second}, Deferred: later,
			Companions: later.Companions(),
		}), Pending: later,
		Exhausted: func(e Exhausted) {
			about := "nothing"
			if e.Object != nil {
				about = strings.TrimSpace(objectText(*e.Object))
			}
			w.record("exhausted %s about %s after %d: parked %t, %v", e.Hook.Name, about, e.Attempts, e.Parked, e.Err)
		},
	}}
	for _, h := range w.order {
		w.life.lives = append(w.life.lives, &life{hook: h, state: Ticking, end: func() {}})
	}
	w.life.lanes = hook.LanesOf(w.order)
	w.life.o.Runner.Add(w.order)
	w.life.publish()
	w.life.keepQueues()
	ctx, cancel := context.WithCancel(w.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = queues.Run(ctx, ctx) })
	running.Go(func() { w.life.requeue(ctx) })
	w.stop = func() {
		cancel()
		running.Wait()
		w.life.work.Wait()
		if err := files.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

func objectOf(text string) event.Object {
	namespace, name, _ := strings.Cut(text, "/")
	return event.Object{Namespace: namespace, Name: name, Kind: "Order", Full: event.Memory(strconv.Quote(text))}
}

func objectText(o event.Object) string {
	if o.Name == "" {
		return ""
	}
	return " " + o.Namespace + "/" + o.Name
}

var watches = map[string]event.Watch{"added": event.Added, "modified": event.Modified, "deleted": event.Deleted, "deleting": event.Deleting}

func (w *world) do(words []string) {
	command, args := words[0], append(words[1:], "", "")
	lane := func() (queue, key string) { queue, key, _ = strings.Cut(args[0], "/"); return queue, key }
	switch command {
	case "binding", "schedule", "retry":
		w.declare(command, args[0], optionsOf(words[2:]))
	case "start":
		w.start(optionsOf(words[1:]))
	case "object", "gone":
		h, a := w.find(args[0])
		w.mu.Lock()
		defer w.mu.Unlock()
		id := fmt.Sprint(h.Name, a.Index, args[1])
		if w.objects[id] = keyOf(h, a, args); command == "gone" {
			delete(w.objects, id)
			w.life.ObjectGone(h, a.Index, objectOf(args[1]))
		}
	case "added", "modified", "deleted", "deleting":
		h, a := w.find(args[0])
		if command == "deleting" {
			w.mu.Lock()
			delete(w.objects, fmt.Sprint(h.Name, a.Index, args[1]))
			w.mu.Unlock()
		}
		ev := event.Event{Type: event.Change, Hook: h, Index: a.Index, Watch: watches[command], Object: objectOf(args[1])}
		ev.Key = keyOf(h, a, args)
		if h.At(a).Group != "" {
			ev.Object.Full = nil
		}
		w.life.Queue(ev)
	case "sync":
		h, a := w.find(args[0])
		task, key := w.life.task(event.Event{Type: event.Synchronization, Hook: h, Index: a.Index})
		w.life.o.Queues.AddFirst(task.Queue(), key, task)
	case "tick":
		h, a := w.find(args[0])
		w.life.Queue(event.Event{Type: event.Tick, Hook: h, Index: a.Index})
	case "half":
		w.mu.Lock()
		w.operationFails = true
		w.mu.Unlock()
		w.end(args[0], strings.TrimSpace(strings.Join(args[1:], " ")), true)
	case "ok", "bad":
		w.end(args[0], strings.TrimSpace(strings.Join(args[1:], " ")), command == "ok")
	case "wait":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(d)
	case "parked":
		for _, p := range w.life.Parked(10) {
			var events []string
			for _, ev := range p.Events {
				events = append(events, ev.Binding().Name+objectText(ev.Object))
			}
			end := ""
			if p.GaveUp {
				end = "; the hook gave up"
			}
			w.record("parked %s %s %s[%s] %d contexts, %d attempts: %s%s", p.ID, p.Hook.Name, p.Queue, p.Key, p.Contexts, p.Attempts,
				strings.Join(events, ", "), end)
		}
	case "requeues":
		if at, ok := w.life.o.Pending.Next(); ok {
			requeues := 0
			for _, due := range w.life.o.Pending.Due() {
				requeues += due.Events
			}
			w.record("%d requeues, the next one at %s", requeues, at.Sub(w.began))
		} else {
			w.record("no requeues")
		}
	case "queues":
		for _, name := range w.life.o.Queues.Names(hook.MainQueue) {
			w.life.o.Queues.Look(name, "", -1, func(_ queue.State, lanes []queue.Lane) {
				for _, l := range lanes {
					var tasks []string
					for task := range l.All() {
						tasks = append(tasks, task.(Task).Describe()...)
					}
					w.record("queue %s[%s]: %s", name, l.Key, strings.Join(tasks, ", "))
				}
			})
		}
	case "parked-retry":
		w.life.RetryParked(words[1:]...)
	case "parked-drop":
		w.life.DropParked(words[1:]...)
	case "retry-queue":
		queue, key := lane()
		w.record("%d delays ended", w.life.RetryQueue(queue, key, false))
	case "skip":
		f, ok := w.life.SkipTask(lane())
		w.record("skipped %t after %d", ok, f.Failures)
	case "pause":
		w.life.PauseQueue(args[0])
	case "resume":
		w.life.ResumeQueue(args[0])
	case "trigger":
		h, a := w.find(args[0])
		if args[1] != "" {
			namespace, name, _ := strings.Cut(args[1], "/")
			w.record("triggered: %v", w.life.TriggerObject(h, a.Index, namespace, name, false))
			break
		}
		id, err := w.life.Trigger(h, a, false)
		w.record("triggered %s %v", id, err)
	case "remove":
		for _, x := range w.life.lives {
			if x.hook.Name == args[0] {
				w.life.retire(x)
			}
		}
		synctest.Wait()
		select {
		case do := <-w.life.inbox: // its last run has ended
			do()
		default:
		}
	default:
		w.t.Fatalf("unknown command %q", command)
	}
}

// keyOf is the key of an object as the watch evaluates it: a jq key is given.
func keyOf(h *hook.Hook, a hook.Address, args []string) string {
	b := &h.Kubernetes[a.Index]
	if b.Group != "" || !b.Lanes.Keyed() {
		return ""
	}
	o := objectOf(args[1])
	return event.KeyOf(b.Lanes.Key, event.ObjectName{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}, args[2])
}

func (w *world) end(name, result string, ok bool) {
	w.mu.Lock()
	gate := w.gates[name]
	w.results[name] = result
	log := strings.Join(w.log, "")
	w.mu.Unlock()
	switch {
	case gate == nil:
		w.t.Fatalf("%s does not run; in this block:\n%s", name, log)
	case ok:
		gate <- nil
	default:
		gate <- errors.New("exit status 1")
	}
}

// Execute is a hook that runs until the script ends it.
func (w *world) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	env := optionsOf(in.Vars)
	name := in.Hook
	if key := env["HOOK_QUEUE_KEY"]; key != "" {
		name += "[" + strings.TrimPrefix(key, "Order/") + "]"
	}
	text, err := os.ReadFile(env["BINDING_CONTEXT_PATH"])
	if err != nil {
		return process.Result{}, err
	}
	var contexts []struct {
		Binding, Type, GroupName, WatchEvent string
		Object                               string
	}
	if err := json.Unmarshal(text, &contexts); err != nil {
		return process.Result{}, fmt.Errorf("%w in %s", err, text)
	}
	var words []string
	for _, c := range contexts {
		words = append(words, strings.TrimSpace(c.Binding+" "+c.Type+c.WatchEvent+" "+c.GroupName+c.Object))
	}
	w.record("%s runs, attempt %s of %s: %s", name, env["HOOK_ATTEMPT"], env["HOOK_ATTEMPT_LIMIT"], strings.Join(words, ", "))
	gate := make(chan error)
	w.mu.Lock()
	w.gates[name] = gate
	w.mu.Unlock()
	select {
	case err = <-gate:
	case <-ctx.Done():
		return process.Result{}, ctx.Err()
	}
	w.mu.Lock()
	delete(w.gates, name)
	result := w.results[name]
	w.mu.Unlock()
	return process.Result{}, errors.Join(err, os.WriteFile(env["RUN_RESULT_PATH"], []byte(result), 0o600))
}

// cluster is the fake of what the API server has.
type cluster struct {
	Watcher
	Objects
	*world
}

func (c cluster) Object(h *hook.Hook, index int, namespace, name string) (event.Event, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key, ok := c.objects[fmt.Sprint(h.Name, index, namespace+"/"+name)]
	return event.Event{Type: event.Change, Hook: h, Index: index, Object: objectOf(namespace + "/" + name), Key: key}, ok
}

func (c cluster) Has(h *hook.Hook, index int, namespace, name string) bool {
	_, ok := c.Object(h, index, namespace, name)
	return ok
}

func (c cluster) Snapshot(h *hook.Hook, index int) event.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all objectList
	prefix := fmt.Sprint(h.Name, index)
	for id := range c.objects {
		if object, ok := strings.CutPrefix(id, prefix); ok {
			all = append(all, objectOf(object))
		}
	}
	return all
}

func (c cluster) Synchronize(h *hook.Hook, index int) event.Snapshot { return c.Snapshot(h, index) }
func (c cluster) Unlock(h *hook.Hook, index int)                     { c.record("unlocked %s", h.Kubernetes[index].Name) }

func (c cluster) Mute(*hook.Hook)         {}
func (c cluster) Disable(*hook.Hook, int) {}
func (c cluster) Announce(h *hook.Hook, index int) {
	c.record("announced %s", h.Kubernetes[index].Name)
}

type objectList []event.Object

func (l objectList) Len() int { return len(l) }
func (l objectList) Each(yield func(event.Object) bool) {
	for _, o := range l {
		if !yield(o) {
			return
		}
	}
}
