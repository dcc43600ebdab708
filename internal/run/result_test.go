package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// What a result file can contain follows from the events of its run.
func TestResultRules(t *testing.T) {
	pod := event.Object{Namespace: "shop", Name: "web"}
	list := []event.Snapshot{many{{Namespace: "shop", Name: "db"}, {Name: "node"}}}
	plain, group, unlisted := hookOf("--"), hookOf("g"), hookOf("--")
	unlisted.Kubernetes[1].Initial = hook.InitialNone
	legacy := hookOf("-")
	legacy.Contexts = hook.NameContexts
	of := func(h *hook.Hook, typ event.Type, index int) event.Event {
		return event.Event{Type: typ, Hook: h, Index: index, Watch: event.Added, Object: pod}
	}
	const requeue, named, listed, other = "requeueAfter: 5m", "requeue: [{namespace: shop, name: web, after: 5m}]",
		"requeue: [{name: node, after: 5m}]", "requeue: [{name: web, after: 5m}]"
	for _, c := range []struct {
		name   string
		events []event.Event
		lists  []event.Snapshot
		text   string
		want   string // part of the error; empty: accepted
	}{
		{"an object", []event.Event{of(plain, event.Change, 0)}, nil, requeue + "\n" + named, ""},
		{"another object", []event.Event{of(plain, event.Change, 0)}, nil, other, "not in the contexts"},
		{"a Synchronization", []event.Event{of(plain, event.Synchronization, 0)}, list, listed, ""},
		{"not in its list", []event.Event{of(plain, event.Synchronization, 0)}, list, named, "not in the contexts"},
		{"a group", []event.Event{of(group, event.Change, 0)}, nil, requeue, ""},
		{"an object of a group", []event.Event{of(group, event.Change, 0)}, nil, named, "not in the contexts"},
		{"one of two bindings without Synchronization", []event.Event{of(unlisted, event.Change, 0), of(unlisted, event.Change, 1)}, nil, requeue,
			""},
		{"only that one", []event.Event{of(unlisted, event.Change, 1)}, nil, requeue, `binding "b"`},
		{"an object of that one", []event.Event{change(unlisted, 0), of(unlisted, event.Change, 1)}, nil, named, "not in the contexts"},
		{"not that one", []event.Event{of(unlisted, event.Change, 0)}, nil, requeue, ""},
		{"startup", []event.Event{{Type: event.Startup, Hook: plain}}, nil, requeue, "an onStartup run"},
		{"version 0", []event.Event{of(legacy, event.Change, 0)}, nil, requeue, "a hook with configuration v0"},
		{"version 0, a message", []event.Event{of(legacy, event.Change, 0)}, nil, "message: fine", ""},
	} {
		r := New(Options{})
		task := r.Task(c.events[0])
		for _, ev := range c.events[1:] {
			if !task.Absorb(r.Task(ev)) {
				t.Fatalf("%s: not absorbed", c.name)
			}
		}
		_, err := task.result([]byte(c.text), c.lists, false)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	review := New(Options{}).Task(of(plain, event.HTTP, 0))
	review.ensureExtra().review = &answered{}
	if _, err := review.result([]byte(requeue), nil, false); err == nil || !strings.Contains(err.Error(), "a run that answers a request") ||
		review.limit() != 1 {
		t.Errorf("a request: error %v, limit %d", err, review.limit())
	}
}

// Whatever a run contains, what can be delivered again is requeued, and nothing else: a binding without Synchronization refuses a key only
// if the key is about its own contexts.
func TestResultOfMixedContexts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := hookOf("---")
		alive := aliveObjects{}
		r := New(Options{Objects: alive, Finalizers: keepsAll{}})
		var task *Task
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
		result, err := task.result([]byte(text), nil, false)
		if (err == nil) != (listed && !(keeps && refused)) {
			rt.Fatalf("a listed one %t, a Deleting of an unlisted one %t, keepFinalizer %t: %v", listed, refused, keeps, err)
		}
		if err != nil {
			return
		}
		r.succeed(task, &Attempt{Report: Report{Result: result}})
		r.keep(task, result, nil)
		for _, ev := range r.Pending().Take(time.Now().Add(time.Hour)) {
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
func (aliveObjects) Follow(*hook.Hook, int, string, string) ([]byte, func(string, string)) {
	return nil, nil
}

// keepsAll keeps all finalizers.
type keepsAll struct{ noFinalizers }

func (keepsAll) Keep(event.Event) (kept, again bool) { return true, true }

// A clean-up that has another step keeps the objects of Deleting, but for those whose Deleted is in the same run: nothing follows it.
func TestKeptObjects(t *testing.T) {
	h := hookOf("-")
	r := New(Options{Finalizers: leftAll{}})
	of := func(uid string, watch event.Watch) event.Event {
		return event.Event{Type: event.Change, Hook: h, Watch: watch, Object: event.Object{Name: uid, UID: uid}}
	}
	task := r.Task(of("added", event.Added))
	for _, ev := range []event.Event{of("stays", event.Deleting), of("left", event.Deleting), of("left", event.Deleted)} {
		task.Absorb(r.Task(ev))
	}
	if kept := r.keep(task, effect.Result{KeepFinalizer: true}, nil); !kept["stays"] || kept["left"] || kept["added"] {
		t.Errorf("kept: %v", kept)
	}
}

// leftAll are objects that have left the selectors of a binding with Deleted.
type leftAll struct{ keepsAll }

func (leftAll) Keep(event.Event) (kept, again bool) { return true, false }
