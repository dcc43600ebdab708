package pending

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/run"
	"github.com/shell-operator/shell-operator/internal/run/process"
	"github.com/shell-operator/shell-operator/internal/run/workspace"
)

// world is a hook that writes a result file, in a cluster without objects.
type world struct {
	run.Snapshots
	run.Effects
	result string
}

func (w *world) Execute(_ context.Context, in process.Invocation) (process.Result, error) {
	if w.result == "" {
		return process.Result{}, nil
	}
	return process.Result{}, os.WriteFile(process.Variable(in.Vars, "RUN_RESULT_PATH"), []byte(w.result), 0o600)
}

func (*world) Apply(context.Context, *slog.Logger, *hook.Hook, run.Outputs, *run.Turn, run.Identify) ([]run.Change, error) {
	return nil, nil
}
func (*world) Snapshot(*hook.Hook, int) event.Snapshot { return event.NoObjects{} }
func (*world) Unlock(*hook.Hook, int)                  {}

// many is a snapshot of objects.
type many []event.Object

func (m many) Len() int { return len(m) }
func (m many) Each(yield func(event.Object) bool) {
	for _, o := range m {
		if !yield(o) {
			return
		}
	}
}

// running returns a Runner whose runs deliver contexts of at most so many bytes, and its Ledger.
func running(t testing.TB, w interface {
	run.Snapshots
	run.Effects
}, e run.Executor, o Options, most int) (*run.Runner, *Ledger) {
	files, err := workspace.Open(workspace.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	l := New(o)
	return run.New(run.Options{Executor: e, Snapshots: w, Effects: w, Workspace: files, Log: slog.New(slog.DiscardHandler),
		Deferred: l, Companions: l.Companions(), MaxContextBytes: most}), l
}

// hookOf makes a hook with one kubernetes binding with a finalizer per letter.
func hookOf(letters string) *hook.Hook {
	h := &hook.Hook{Name: "h"}
	for i := range letters {
		h.Kubernetes = append(h.Kubernetes, hook.Kubernetes{Binding: hook.Binding{Name: string(rune('a' + i))}, Queue: hook.MainQueue,
			Finalizer: "example.com/clean-up"})
	}
	return h
}

func change(h *hook.Hook, index int) event.Event {
	return event.Event{Type: event.Change, Hook: h, Index: index, Watch: event.Added}
}

// Whatever a run contains, what can be delivered again is requeued, and nothing else: a binding without Synchronization refuses a key only
// if the key is about its own contexts.
func TestResultOfMixedContexts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hookOf("---")
		alive := aliveObjects{}
		w := &world{}
		r, l := running(t, w, w, Options{Objects: alive, Finalizers: keepsAll{}}, 0)
		r.Add([]*hook.Hook{h})
		var task *run.Task
		listed, again, refused := false, map[string]bool{}, false
		for i := range h.Kubernetes {
			k := &h.Kubernetes[i]
			if rapid.Bool().Draw(rt, "unlisted") {
				k.Initial = hook.InitialNone
			}
			if i > 0 && rapid.Bool().Draw(rt, "absent") {
				continue
			}
			ev := change(h, i)
			ev.Object = event.Object{Namespace: "n", Name: fmt.Sprint("o", i)}
			if rapid.Bool().Draw(rt, "deleting") {
				ev.Watch, ev.Object.UID = event.Deleting, "u"
			} else {
				alive[ev.Object.Name] = true
			}
			if next := r.Task(ev); task == nil {
				task = next
			} else if !task.Absorb(next) {
				rt.Fatal("not absorbed")
			}
			if k.Initial != hook.InitialNone {
				listed, again[k.Name] = true, true
			}
			refused = refused || k.Initial == hook.InitialNone && ev.Watch == event.Deleting
		}
		keeps := rapid.Bool().Draw(rt, "keepFinalizer")
		text := "requeueAfter: 5m"
		if keeps {
			text += "\nkeepFinalizer: true"
		}
		w.result = text
		err := task.Run(t.Context())
		if (err == nil) != (listed && !(keeps && refused)) {
			rt.Fatalf("a listed one %t, a Deleting of an unlisted one %t, keepFinalizer %t: %v", listed, refused, keeps, err)
		}
		if err != nil {
			return
		}
		for _, ev := range l.Take(time.Now().Add(time.Hour)) {
			if !again[ev.Binding().Name] {
				rt.Fatalf("%s is requeued", ev.Binding().Name)
			}
			delete(again, ev.Binding().Name)
		}
		// A Deleting is delivered again only if its finalizer is kept.
		for ev := range task.Events() {
			if ev.Watch == event.Deleting && !keeps {
				delete(again, ev.Binding().Name)
			}
		}
		if len(again) > 0 {
			rt.Fatalf("not requeued: %v", again)
		}
	})
}

// aliveObjects are the names of those that are not being deleted.
type aliveObjects map[string]bool

func (a aliveObjects) Object(h *hook.Hook, index int, namespace, name string) (event.Event, bool) {
	return event.Event{Type: event.Change, Hook: h, Index: index, Object: event.Object{Namespace: namespace, Name: name}}, a[name]
}
func (a aliveObjects) Has(*hook.Hook, int, string, string) bool { return true }

// keepsAll keeps all finalizers.
type keepsAll struct{ noFinalizers }

func (keepsAll) Keep(event.Event) (kept, again bool) { return true, true }

// leftAll are objects that have left the selectors of a binding with Deleted.
type leftAll struct{ released }

func (*leftAll) Keep(event.Event) (kept, again bool) { return true, false }

// A clean-up that has another step keeps the objects of Deleting, but for those whose Deleted is in the same run: nothing follows it.
func TestKeptObjects(t *testing.T) {
	h := hookOf("-")
	w, cleaned := &world{result: "keepFinalizer: true\nrequeueAfter: 5m"}, &leftAll{}
	r, _ := running(t, w, w, Options{Objects: aliveObjects{}, Finalizers: cleaned}, 0)
	r.Add([]*hook.Hook{h})
	of := func(uid string, watch event.Watch) event.Event {
		return event.Event{Type: event.Change, Hook: h, Watch: watch, Object: event.Object{Name: uid, UID: uid}}
	}
	task := r.Task(of("stays", event.Deleting))
	for _, ev := range []event.Event{of("left", event.Deleting), of("left", event.Deleted)} {
		task.Absorb(r.Task(ev))
	}
	if err := task.Run(t.Context()); err != nil || fmt.Sprint(cleaned.names) != "[left left]" {
		t.Errorf("released: %v, %v", cleaned.names, err)
	}
}

// released are the names of objects without their finalizers.
type released struct {
	noFinalizers
	names []string
}

func (r *released) Release(_ context.Context, events iter.Seq[event.Event]) {
	for ev := range events {
		r.names = append(r.names, ev.Object.Name)
	}
}

// A run acknowledges the events that it has delivered: it releases no finalizer, and drops no parked context, of those that it leaves.
func TestSplitRunAcknowledgesItsShare(t *testing.T) {
	h := hookOf("-")
	w, cleaned := &world{}, &released{}
	r, l := running(t, w, w, Options{Finalizers: cleaned}, 2500)
	r.Add([]*hook.Hook{h})
	var head *run.Task
	for i := range 5 {
		ev := event.Event{Type: event.Change, Hook: h, Watch: event.Deleting, Object: event.Object{Name: fmt.Sprint(i), UID: fmt.Sprint("u", i),
			Full: event.Memory(`"` + strings.Repeat("x", 1000) + `"`)}}
		r.Task(ev).Exhaust("main", "", 1, fmt.Errorf("no"))
		if next := r.Task(ev); i == 0 {
			head = next
		} else {
			head.Absorb(next)
		}
	}
	for _, want := range []string{"[0 1], parked 3", "[0 1 2 3], parked 1", "[0 1 2 3 4], parked 0"} {
		if err := head.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		parked := 0
		for _, p := range l.Parked(0) {
			parked += p.Contexts
		}
		head = head.Rest()
		if got := fmt.Sprintf("%v, parked %d", cleaned.names, parked); got != want {
			t.Errorf("released %s, want %s", got, want)
		}
	}
}
