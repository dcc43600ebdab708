package run

import (
	"strings"
	"testing"

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
