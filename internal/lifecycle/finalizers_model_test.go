package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/hookset"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/queue"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/pending"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
	"github.com/shell-operator/shell-operator/internal/source/finalizer"
	"github.com/shell-operator/shell-operator/internal/source/schedule"
	"github.com/shell-operator/shell-operator/internal/source/watch"
	"github.com/shell-operator/shell-operator/internal/test"
)

// TestFinalizersAgainstModel runs a hook that keeps a bucket for each object, with a real Watcher on a model of an API server. Whatever
// happens, an object that is being deleted and has the finalizer waits for a run or is parked; in the end each object is released by a run
// that has removed its bucket, and no other run makes it again. Nothing is kept for hooks that have been replaced.
func TestFinalizersAgainstModel(t *testing.T) {
	seeds := "150"
	switch {
	case test.Long():
		seeds = "30000"
	case testing.Short():
		seeds = "50"
	}
	if err := flag.Set("rapid.checks", seeds); err != nil {
		t.Fatal(err)
	}
	// They bound errors by the time since the last one, which another bubble may have had.
	defer func(all []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = all }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	rapid.Check(t, func(rt *rapid.T) {
		s := scenario{
			keyed:    rapid.Bool().Draw(rt, "keyed"),
			named:    rapid.Bool().Draw(rt, "named"),
			perRun:   rapid.SampledFrom([]int{0, 1}).Draw(rt, "contextsPerRun"),
			parked:   rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "max-parked"),
			modified: rapid.Bool().Draw(rt, "Modified"),
			seed:     rapid.Uint64().Draw(rt, "seed"),
			steps:    finalizerSteps.Draw(rt, "steps"),
		}
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = s.play(t) })
		if len(faults) > 0 {
			rt.Fatalf("max-parked %d, %v\n%s", s.parked, s.steps, strings.Join(faults, "\n"))
		}
	})
}

// TestFinalizerScenarios are those that the model rarely reaches.
func TestFinalizerScenarios(t *testing.T) {
	defer func(all []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = all }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	for name, text := range map[string]string{
		"deleted while a run polls": "wait, create x, moment, poll, delete x, break, wait, wait, wait, repair, wait",
		"left while a run polls":    "create x, wait, wait, wait, poll, delete x, moment, leave x, wait, break, wait, wait, wait, repair, wait",
		"left twice":                "create y, wait, leave y, join y, leave y, wait, wait",
		"left before the start":     "create x, wait, wait, wait, blind, leave x, reload, wait, wait, see, wait",
		"back while its watch is late": "named, create x, create y, wait, wait, wait, leave x, moment, hold, join x, wait, wait, change y, " +
			"moment, deliver, wait, wait",
		"replaced during a run":  "create x, wait, wait, wait, change x, moment, reload, wait, wait",
		"paused during a run":    "create x, wait, wait, wait, change x, moment, pause-hook, moment, resume-hook, wait, wait",
		"paused between steps":   "create y, wait, poll, delete y, wait, pause-hook, wait, resume-hook, wait",
		"left during a pause":    "create x, create y, wait, wait, pause-hook, delete x, leave y, wait, resume-hook, wait",
		"replaced between steps": "create y, wait, poll, delete y, wait, reload, wait",
		"Deleting displaced": "max-parked, create x, create y, wait, wait, wait, break, delete x, wait, wait, wait, delete y, " +
			"wait, wait, wait",
		"Deleted displaced": "max-parked, create x, create y, wait, wait, wait, break, leave x, wait, wait, wait, delete y, wait, wait, wait",
		"back and displaced": "max-parked, create y, wait, wait, wait, break, delete y, moment, leave y, moment, join y, wait, wait, wait, " +
			"wait, create x, wait, delete x, wait, wait, wait, wait",
		"left and displaced": "max-parked, create x, create y, wait, wait, wait, break, delete x, wait, leave x, wait, wait, wait, wait, " +
			"delete y, wait, wait, wait",
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario{modified: true, seed: 1}
			for step := range strings.SplitSeq(text, ", ") {
				kind, object, _ := strings.Cut(step, " ")
				switch kind {
				case "max-parked":
					s.parked = 1
				case "named":
					s.named = true
				}
				s.steps = append(s.steps, finalizerStep{kind, object})
			}
			synctest.Test(t, func(t *testing.T) {
				if faults := s.play(t); len(faults) > 0 {
					t.Error(strings.Join(faults, "\n"))
				}
			})
		})
	}
}

// scenario is a configuration of the hook, and what happens.
type scenario struct {
	keyed, modified bool
	// named: each object has a watch of its own.
	named  bool
	perRun int
	// parked is --max-parked.
	parked int
	seed   uint64
	steps  []finalizerStep
}

type finalizerStep struct{ kind, object string }

func (s finalizerStep) String() string { return s.kind + " " + s.object }

var finalizerSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) finalizerStep {
	return finalizerStep{
		kind: rapid.SampledFrom([]string{
			"create", "create", "create", "change", "change", "delete", "delete", "delete", "leave", "join", "wait", "wait", "wait",
			"moment", "moment",
			"break", "repair", "poll", "rest", "outage", "recovery", "retry", "reload", "pause-hook", "resume-hook",
		}).Draw(t, "kind"),
		object: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "object"),
	}
}), 1, 50)

const modelFinalizer = "example.com/bucket"

// buckets is a hook that has a bucket for each object. It ends up to eight seconds after its start.
type buckets struct {
	server *apiServer

	mu     sync.Mutex
	random *rand.Rand
	// broken, polling and slow are what the runs that end now do. Keyed, the hook does not poll by Synchronizations: they have a lane of their
	// own, so that one may end after the Deleting of an object in its list.
	broken, polling, slow, keyed bool
	// of are the uids of the objects that have one, by name.
	of map[string]string
	// deleting are the uids whose Deleting has been delivered to this version of the hook. ended are those whose Deleted was made.
	deleting, ended map[string]bool
	// lost are the names of objects of which --max-parked has dropped changes.
	lost map[string]bool
	// log is what happened; faults is the log with what was wrong, or nothing.
	log, faults []string
}

func (b *buckets) record(text string, args ...any) {
	b.log = append(b.log, time.Now().Format(time.TimeOnly)+" "+fmt.Sprintf(text, args...))
}

func (b *buckets) fault(text string, args ...any) {
	b.record("FAULT "+text, args...)
	b.faults = b.log
}

type bucketObject struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp string
	}
}

func (b *buckets) Execute(ctx context.Context, in process.Invocation) (process.Result, error) {
	env := optionsOf(in.Vars)
	text, err := os.ReadFile(env["BINDING_CONTEXT_PATH"])
	if err != nil {
		return process.Result{}, err
	}
	var contexts []struct {
		Type, WatchEvent  string
		Object            bucketObject
		Objects, Deleting []struct{ Object bucketObject }
	}
	if err := json.Unmarshal(text, &contexts); err != nil {
		return process.Result{}, fmt.Errorf("%w in %s", err, text)
	}
	b.mu.Lock()
	var words []string
	last := map[string]string{}
	for _, c := range contexts {
		uid := c.Object.Metadata.UID
		words = append(words, c.Type+c.WatchEvent+" "+uid)
		if last[uid] = c.WatchEvent; c.WatchEvent == "Deleting" {
			b.deleting[uid] = true
		}
	}
	b.record("run %s", strings.Join(words, ", "))
	for uid, watch := range last {
		if b.deleting[uid] && watch != "Deleting" && watch != "Deleted" {
			b.fault("%q of %s after its Deleting", watch, uid)
		}
	}
	length := time.Duration(0)
	if b.slow {
		length = time.Duration(b.random.IntN(8000)) * time.Millisecond
	}
	b.mu.Unlock()
	time.Sleep(length)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		b.record("failed")
		return process.Result{}, errors.New("exit status 1")
	}
	keeps := b.polling && slices.Contains(slices.Collect(maps.Values(last)), "Deleting") && b.random.IntN(2) == 0
	b.record("done, keeps %t", keeps)
	for _, c := range contexts {
		o := c.Object.Metadata
		switch {
		case c.WatchEvent == "Deleting" && keeps: // another step
		case c.Type == "Synchronization":
			for _, one := range c.Objects {
				if one.Object.Metadata.DeletionTimestamp == "" {
					b.of[one.Object.Metadata.Name] = one.Object.Metadata.UID
				}
			}
		case c.WatchEvent == "Deleting" || c.WatchEvent == "Deleted":
			delete(b.of, o.Name)
		default:
			b.of[o.Name] = o.UID
		}
	}
	if keeps {
		return process.Result{}, os.WriteFile(env["RUN_RESULT_PATH"], []byte("{requeueAfter: 3s, keepFinalizer: true}"), 0o600)
	}
	if b.polling && b.random.IntN(3) > 0 && !(b.keyed && contexts[0].Type == "Synchronization") {
		return process.Result{}, os.WriteFile(env["RUN_RESULT_PATH"], []byte("requeueAfter: 3s"), 0o600)
	}
	return process.Result{}, nil
}

// Event checks that Deleted comes once, unless the object comes back.
func (b *buckets) Event(ev event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, _ := ev.Object.Full.Bytes()
	var o bucketObject
	if err := json.Unmarshal(text, &o); err != nil {
		b.fault("%v", err)
	}
	uid := o.Metadata.UID
	b.record("event %s %s", ev.Watch, uid)
	switch ev.Watch {
	case event.Deleted:
		if b.ended[uid] {
			b.fault("Deleted of %s twice", uid)
		}
		b.ended[uid] = true
	case event.Added, event.Deleting:
		if now := b.server.objects()[o.Metadata.Name]; now.Metadata.UID == uid && !now.protected() {
			b.fault("%s of %s, which does not have the finalizer", ev.Watch, uid)
		}
		delete(b.ended, uid)
	}
}

// dropped notes what the hook does not get because of --max-parked. Deletions are delivered again.
func (b *buckets) dropped(ev event.Event, why pending.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record("dropped %s of %q: %s", ev.Watch, ev.Object.Name, why)
	switch {
	case why != pending.BeyondMax:
	case ev.Object.UID != "":
		delete(b.ended, ev.Object.UID)
	case ev.Type == event.Synchronization:
		b.lost["x"], b.lost["y"] = true, true
	default:
		b.lost[ev.Object.Name] = true
	}
}

// released checks that the bucket of an object that has lost the finalizer is gone.
func (b *buckets) released(name, uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.record("released %s", uid); b.of[name] == uid && !b.lost[name] {
		b.fault("%s has lost the finalizer, and has its bucket", uid)
	}
}

// finalizerWorld is an operator with one hook.
type finalizerWorld struct {
	*buckets
	life    *Lifecycle
	watcher *watch.Watcher
	hook    func() *hook.Hook
	// old are the versions of the hook that have been replaced.
	old []*hook.Hook
}

func (w *finalizerWorld) Event(ev event.Event)                     { w.buckets.Event(ev); w.life.Queue(ev) }
func (*finalizerWorld) Keep(b []byte) event.Payload                { return event.Memory(b) }
func (*finalizerWorld) Objects(*hook.Hook, int, int)               {}
func (w *finalizerWorld) Gone(h *hook.Hook, i int, o event.Object) { w.life.ObjectGone(h, i, o) }
func (*finalizerWorld) FilterFailed(*hook.Hook, int, error)        {}
func (*finalizerWorld) KeyFailed(*hook.Hook, int, error)           {}
func (*finalizerWorld) SetHooks([]*hook.Hook)                      {}
func (*finalizerWorld) BindingsEnabled(string, time.Duration)      {}
func (*finalizerWorld) BindingsFailed(string)                      {}
func (*finalizerWorld) HooksReloaded(bool)                         {}
func (*finalizerWorld) HookRemoved(string)                         {}

// reload replaces the hook by another version of it.
func (w *finalizerWorld) reload() {
	done := make(chan struct{})
	w.life.post(w.life.ctx, func() {
		defer close(done)
		w.begin()
		x, next := w.life.lives[0], w.hook()
		w.life.lives, w.old = nil, append(w.old, x.hook)
		w.life.retire(x)
		w.life.add([]*hook.Hook{next}, []*hook.Hook{next})
		w.life.keepQueues()
	})
	<-done
}

// begin forgets what has been delivered: the hook starts from the beginning.
func (w *finalizerWorld) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.deleting)
	clear(w.ended)
}

// retryAll retries what is parked, and returns false if nothing is. A Synchronization has the queue main, so that one of a slow hook may
// end after the Deleted of an object in its list.
func (w *finalizerWorld) retryAll() (any bool) {
	w.mu.Lock()
	slow := w.slow
	w.mu.Unlock()
	for _, p := range w.life.Parked(0) {
		if slow && p.Queue == "main" {
			continue
		}
		w.life.RetryParked(p.ID)
		any = true
	}
	return any
}

// pendingObjects are the uids of the objects that events are about which wait, run or are parked.
func (w *finalizerWorld) pendingObjects() map[string]bool {
	uids := map[string]bool{}
	add := func(ev event.Event) {
		if ev.Watch == event.Deleting || ev.Watch == event.Deleted {
			uids[ev.Object.UID] = true
		}
	}
	w.life.o.Queues.Visit(func(_ string, tasks []queue.Task) {
		for _, t := range tasks {
			if t, ok := t.(Task); ok {
				for ev := range t.Events() {
					add(ev)
				}
			}
		}
	})
	for _, p := range w.life.Parked(1000) {
		for _, ev := range p.Events {
			add(ev)
		}
	}
	for _, d := range w.life.o.Pending.Deletions(w.life.Hooks()[0], 0) {
		uids[d.Object.UID] = true
	}
	for _, o := range w.life.o.Pending.Waiting(w.life.Hooks()[0], 0) {
		uids[o.UID] = true
	}
	return uids
}

func (s *scenario) newHook() *hook.Hook {
	limit, shortest, longest := 2, time.Second, 5*time.Second
	k := hook.Kubernetes{
		Binding: hook.Binding{Name: "b"}, APIVersion: "v1", Kind: "ConfigMap", Labels: "app=x", Queue: "q", Finalizer: modelFinalizer,
		Added: true, Modified: s.modified, Deleted: true, KeepFullObjects: true, WaitForSynchronization: true, IncludePrevious: true,
		Retry: &hook.Retry{Limit: &limit, MinDelay: &shortest, MaxDelay: &longest, Exhausted: hook.Park},
	}
	if s.keyed {
		k.Lanes = hook.Lanes{Key: "object", Concurrency: 2}
	}
	if s.named {
		k.Names = []string{"x", "y"}
	}
	return &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{k}, Settings: hook.Settings{ContextsPerRun: s.perRun}}
}

func (s *scenario) play(t *testing.T) []string {
	server := &apiServer{memory: memory.New(memory.Options{Kinds: memory.BuiltIns()}), random: rand.New(rand.NewPCG(s.seed, 1))}
	b := &buckets{server: server, random: rand.New(rand.NewPCG(s.seed, 2)), of: map[string]string{}, deleting: map[string]bool{},
		ended: map[string]bool{}, lost: map[string]bool{}, slow: true, keyed: s.keyed}
	server.released = b.released
	w := &finalizerWorld{buckets: b, hook: s.newHook}
	log := slog.New(slog.DiscardHandler)
	config := &rest.Config{Host: "http://api.example.com", Transport: server, QPS: -1}
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	gates := finalizer.Options{Changes: client, Manager: "shell-operator/model",
		Record: func(context.Context, *hook.Hook, int, kube.Resource) error { return nil }}
	w.watcher, err = watch.New(watch.Options{
		Config: config, JQ: jq.NewCompiler(jq.Options{}), Sink: w, Log: log,
		Guard: gates.Gate,
	})
	if err != nil {
		t.Fatal(err)
	}
	bindings := struct {
		*watch.Watcher
		*finalizer.Finalizers
	}{w.watcher, finalizer.New(gates, w.watcher)}
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	queues := queue.NewSet(queue.Options{
		Backoff: func(int) time.Duration { return 2 * time.Second }, Coalescing: queue.DefaultCoalescing,
		OnExhausted: func(f queue.Failed) { w.life.Exhausted(f) },
	})
	leading := make(chan struct{})
	close(leading)
	first := s.newHook()
	later := pending.New(pending.Options{Limit: s.parked, Dropped: b.dropped, Objects: w.watcher, Finalizers: bindings})
	w.life = &Lifecycle{inbox: make(chan func()), ended: make(chan struct{}), nudge: make(chan struct{}, 1), ctx: t.Context(), o: Options{
		Queues: queues, Log: log, Watcher: bindings, Objects: bindings, Meter: w, Health: NewHealth(func(*hook.Hook) []string { return nil }),
		Store: hookset.NewStore(hookset.StoreOptions{Log: log}), Clock: schedule.New(schedule.Options{}), Leading: leading,
		Trace: func(ctx context.Context, _ *hook.Hook) (context.Context, func()) { return ctx, func() {} },
		Runner: run.New(run.Options{
			Executor: b, Snapshots: w.watcher, Effects: noEffects{}, Workspace: files, Log: log,
			Retry:    run.Retry{Min: time.Second, Max: 5 * time.Second},
			Deferred: later, Companions: later.Companions(),
		}), Pending: later,
	}}
	w.life.add([]*hook.Hook{first}, []*hook.Hook{first})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.watcher.Run(ctx) })
	running.Go(func() { _ = queues.Run(ctx, ctx) })
	running.Go(func() { w.life.Run(ctx) })
	defer func() {
		cancel()
		running.Wait()
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	}()
	synctest.Wait()
	for _, step := range s.steps {
		w.do(step)
		synctest.Wait()
	}
	defer func() {
		if testing.Verbose() {
			fmt.Println(strings.Join(w.log, "\n"))
		}
	}()
	return w.finish()
}

func (w *finalizerWorld) do(s finalizerStep) {
	set := func(change func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		change()
	}
	set(func() { w.record("step %s", s) })
	switch s.kind {
	case "create", "change", "delete", "leave", "join":
		w.server.write(s.kind, s.object)
	case "moment":
		time.Sleep(700 * time.Millisecond)
	case "wait":
		time.Sleep(5 * time.Second)
	case "break", "repair":
		set(func() { w.broken = s.kind == "break" })
	case "poll", "rest":
		set(func() { w.polling = s.kind == "poll" })
	case "outage", "recovery":
		w.server.set(func() { w.server.outage = s.kind == "outage" })
	case "blind", "see":
		if trouble := w.watcher.State(w.life.Hooks()[0], 0).Guarding; w.server.blind && len(trouble) == 0 {
			set(func() { w.fault("the failure is not shown") })
		}
		w.server.set(func() { w.server.blind = s.kind == "blind" })
	case "hold":
		w.server.set(func() { w.server.late = make(chan struct{}) })
	case "deliver":
		close(w.server.late)
	case "retry":
		w.retryAll()
	case "reload":
		w.reload()
	case "pause-hook":
		w.life.PauseHook("h")
	case "resume-hook":
		w.begin()
		w.life.ResumeHook("h")
	}
}

// finish checks what is left: while the hook is as it is, when it works again, and after what is parked has been retried.
func (w *finalizerWorld) finish() []string {
	if len(w.life.PausedHooks()) > 0 {
		w.begin()
	}
	w.life.ResumeHook("h")
	w.server.set(func() { w.server.outage = false })
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	check := func(when string) {
		visible := w.pendingObjects()
		for _, o := range w.server.objects() {
			if o.deleted() && o.protected() && !visible[o.Metadata.UID] {
				w.fault("%s: %s is being deleted, has the finalizer, and neither waits nor is parked", when, o.Metadata.UID)
			}
		}
	}
	check("after the steps")
	w.mu.Lock()
	w.broken, w.polling, w.slow = false, false, false
	w.mu.Unlock()
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	check("when the hook works")
	for range 100 {
		if !w.retryAll() {
			break
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	}
	for _, o := range w.server.objects() {
		if o.deleted() && o.protected() {
			w.fault("%s has not been released", o.Metadata.UID)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server.check(w.buckets)
	p := w.life.o.Pending
	for _, h := range w.old {
		for _, name := range []string{"x", "y"} {
			if _, kept := p.Last(&event.Event{Type: event.Change, Hook: h, Object: event.Object{Namespace: "n", Name: name}}); kept {
				w.fault("the previous value of %s is kept for a hook that has been replaced", name)
			}
		}
	}
	if at, left := p.Next(); left {
		w.fault("a requeue at %s is left", at)
	}
	return w.faults
}

// check compares the objects with the buckets.
func (s *apiServer) check(b *buckets) {
	objects := s.objects()
	for name, o := range objects {
		switch uid := o.Metadata.UID; {
		case o.deleted(): // another finalizer keeps it
		case o.protected() != o.selected():
			b.fault("%s is selected: %t, and has the finalizer: %t", uid, o.selected(), o.protected())
		case o.selected() && b.of[name] != uid && !b.lost[name]:
			b.fault("%s has the bucket of %q", uid, b.of[name])
		}
	}
	for name, uid := range b.of {
		if b.lost[name] {
			continue
		}
		if o, ok := objects[name]; !ok || o.Metadata.UID != uid || o.deleted() || !o.selected() {
			b.fault("the bucket of %s is left", uid)
		}
	}
}
